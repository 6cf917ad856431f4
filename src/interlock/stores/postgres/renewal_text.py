"""What a renewal says of its grants, as text.

A process may hold very many, and for each of them the driver would look what kind of thing it is: as text they take it
a quarter of the time. Mostly they are the same from round to round, and then even that was done before.
"""

from collections.abc import Sequence
from typing import Any

from interlock.stores.leases import Held


class RenewalText:
    """Of the grants that were last asked for. It keeps none of them alive."""

    def __init__(self) -> None:
        self._known: tuple[list[Any], ...] = ()
        self._text = "", "{}", "{}"

    def of(self, grants: Sequence[Held]) -> tuple[str, str, str]:
        """Names, which have no control characters, tokens and grant_ids."""
        names, tokens = [grant.name for grant in grants], [grant.token for grant in grants]
        ids = [grant.grant_id for grant in grants]
        if (names, tokens, ids) != self._known:  # which costs next to nothing where they are the very same objects
            self._known = names, tokens, ids
            self._text = (
                "\x1f".join(names),
                f"{{{','.join(map(str, tokens))}}}",
                f"{{{','.join([f'{grant_id.int:032x}' for grant_id in ids])}}}",
            )
        return self._text
