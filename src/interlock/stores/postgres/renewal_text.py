"""What a renewal says of its grants, as text.

A process may hold very many, and for each of them the driver would look what kind of thing it is: as text they take it
a quarter of the time. Mostly they are the same from round to round, and then even that was done before.
"""

from collections.abc import Sequence
from uuid import UUID

from interlock.stores.leases import Held


class RenewalText:
    """Of the grants that were last asked for. It keeps none of them alive."""

    def __init__(self) -> None:
        self._known: tuple[list[UUID], list[int]] = [], []
        self._text = "", "{}", "{}"

    def of(self, grants: Sequence[Held]) -> tuple[str, str, str]:
        """Names, which have no control characters, tokens and grant_ids."""
        grants_now = [grant.grant_id for grant in grants], [grant.token for grant in grants]
        if grants_now != self._known:
            ids, tokens = self._known = grants_now
            self._text = (
                "\x1f".join([grant.name for grant in grants]),
                f"{{{','.join(map(str, tokens))}}}",
                f"{{{','.join([f'{grant_id.int:032x}' for grant_id in ids])}}}",
            )
        return self._text
