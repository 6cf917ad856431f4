"""What becomes of a claim. Losing a race is a result, no error: nothing was written, and the transaction goes on."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Claimed:
    """The name is the owner's, since then; `replay`: it was already, and nothing was changed."""

    scope: str
    name: str
    owner: str
    id: int
    since: datetime
    replay: bool


@dataclass(frozen=True)
class Taken:
    """The name is another's, since then."""

    scope: str
    name: str
    owner: str
    since: datetime


@dataclass(frozen=True)
class Pending:
    """A transaction of somebody's is open that claims or releases the name: ask again when it has ended."""

    scope: str
    name: str


@dataclass(frozen=True)
class Released:
    """The owner gave the name up, then; `passed_to` is who has it from it. `replay`: it had done so before.

    As the answer to a claim it is a refusal: a claim that is repeated after its release comes too late.
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
    """Not released: what the name stands for is not gone yet."""

    scope: str
    name: str
    owner: str


@dataclass(frozen=True)
class NotClaimed:
    """Nobody owns the name, and whoever was to give it up never did."""

    scope: str
    name: str


@dataclass(frozen=True)
class Free:
    """Of several names, one that could have been had; but not all could, and so none was claimed."""

    scope: str
    name: str


@dataclass(frozen=True)
class Owned:
    """One owner's time with a name; it lasts if there is no `released_at`."""

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
