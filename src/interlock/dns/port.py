"""The port: what each way of publishing host names can do. Every verb may be repeated, by any replica."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Published:
    """The records under a name. `owner` is the id in its mark; None: it has no mark of Interlock's."""

    owner: str | None = None
    targets: tuple[str, ...] = ()
    """Addresses, or the host name that it is another name for."""


class Dns(Protocol):
    """A name belongs to the owner that published it, until it is withdrawn for that owner.

    `owner` is an id that is never used again. A replica that was stopped for long may publish a name after another
    replica has withdrawn it. So a caller that is refused because of an owner that is known to be gone may withdraw the
    name for that owner, and publish it then.
    """

    def full_name(self, name: str) -> str:
        """The name written in full: this one has to be claimed, so that two spellings are not two claims.

        Raises `InvalidName` if it cannot be one of the names that are published here.
        """

    async def check(self, name: str, owner: str) -> None:
        """Raise the error that `publish` would raise now, and change nothing: for a request, before its work begins."""

    async def publish(self, name: str, target: str, owner: str) -> None:
        """Let the name lead to the target, an address or a host name, and to nothing else.

        Raises `DnsForeign`, and changes nothing, if the name has records that are not this owner's.
        """

    async def withdraw(self, name: str, owner: str) -> None:
        """Return when nothing under that name is this owner's any more. Records of others stay as they are."""

    async def lookup(self, name: str) -> Published | None:
        """The records as the name server has them. None: something else publishes names, so nothing is known here."""
        ...
