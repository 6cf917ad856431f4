"""What a way of publishing host names does. Every verb may be repeated, by any replica."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is under a name. `owner` is the id of the instance it belongs to; None: of none that we know."""

    owner: str | None = None
    targets: tuple[str, ...] = ()
    """Addresses, or the host name that it is another name for."""


class Dns(Protocol):
    """A name belongs to the instance that published it, until that withdraws it. `id` is its, and never used again.

    A replica that was stopped for long may publish a name after another has withdrawn it. So whoever is refused because
    of an instance that is known to be deleted may withdraw the name for that one, and publish it then.
    """

    def full_name(self, name: str) -> str:
        """How the name is written in full: what has to be claimed, so that two spellings are not two claims.

        Raises `InvalidName` if it cannot be one of the names that are published here.
        """

    async def check(self, name: str, id: str) -> None:
        """Raises what `publish` would raise now, and changes nothing: for a request, before anything is made."""

    async def publish(self, name: str, target: str, id: str) -> None:
        """Let the name lead to the target, an address or a host name, and to nothing else.

        Raises `DnsForeign`, and changes nothing, if the name has records that are not this instance's.
        """

    async def withdraw(self, name: str, id: str) -> None:
        """Return when nothing under that name is this instance's any more. What is another's stays as it is."""

    async def look(self, name: str) -> Seen | None:
        """None: names are published elsewhere, and what there is is not known here."""
        ...
