"""The port: the operations of each way to publish host names. Any replica may repeat any operation."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Published:
    """The records under a name.

    `owner` is the id in the name's mark; None means that the name has no mark of Interlock's.
    """

    owner: str | None = None
    targets: tuple[str, ...] = ()
    """Addresses, or the host name of which the name is an alias."""


class Dns(Protocol):
    """A name belongs to the owner that published it, until it is withdrawn for that owner.

    `owner` is an id that is never used again. A replica that was stopped for long may publish a name after another
    replica has withdrawn it. So a caller that is refused because of an owner that is known to be gone may withdraw the
    name for that owner, and publish it then.
    """

    def full_name(self, name: str) -> str:
        """Returns the name written in full.

        Callers have to claim the full name, so that two spellings are not two claims.

        Raises `InvalidName` for a name that cannot be published through this object.
        """

    async def check(self, name: str, owner: str) -> None:
        """Raise the error that `publish` would raise now, and change nothing.

        A request calls it before its work begins.
        """

    async def publish(self, name: str, target: str, owner: str) -> None:
        """Let the name lead to the target, an address or a host name, and to nothing else.

        Raises `DnsForeign`, and changes nothing, if the name has records that are not this owner's.
        """

    async def withdraw(self, name: str, owner: str) -> None:
        """Remove this owner's records under the name.

        Returns when they are gone; records of other owners stay as they are.
        """

    async def lookup(self, name: str) -> Published | None:
        """Returns the records that the name server has; None if another system publishes names."""
        ...
