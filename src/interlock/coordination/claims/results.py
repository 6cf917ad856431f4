"""The results of claims and releases. Losing a race is a result, not an error: the transaction can go on."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Claimed:
    """The name belongs to the owner that claimed it. With `replay`, the name belonged to that owner before this call,
    and nothing was changed."""

    scope: str
    name: str
    owner: str
    id: int
    since: datetime
    replay: bool


@dataclass(frozen=True)
class Taken:
    """The name belongs to another owner."""

    scope: str
    name: str
    owner: str
    since: datetime


@dataclass(frozen=True)
class Pending:
    """Another transaction that claims or releases the name is still open: try again once that transaction has ended."""

    scope: str
    name: str


@dataclass(frozen=True)
class Released:
    """The owner released the name, or passed it to the owner `passed_to`. With `replay`, the owner had done so before
    this call.

    As the result of a claim, it is a refusal: this owner has already released the name, so the claim counts as a late
    repetition.
    """

    scope: str
    name: str
    owner: str
    id: int
    since: datetime
    released_at: datetime
    passed_to: str | None
    replay: bool


@dataclass(frozen=True)
class Kept:
    """The name was not released, because its resource is not gone yet."""

    scope: str
    name: str
    owner: str


@dataclass(frozen=True)
class NotClaimed:
    """The name is free, and this owner never owned it."""

    scope: str
    name: str


@dataclass(frozen=True)
class Free:
    """The name is free, but was not claimed, because another name of the same call was not free."""

    scope: str
    name: str


@dataclass(frozen=True)
class Owned:
    """One ownership of a name. The ownership is current if `released_at` is None."""

    id: int
    scope: str
    name: str
    owner: str
    since: datetime
    released_at: datetime | None
    passed_to: str | None


Claiming = Claimed | Taken | Pending | Released
Releasing = Released | Taken | Pending | Kept | NotClaimed
Transferring = Released | Taken | Pending | NotClaimed
