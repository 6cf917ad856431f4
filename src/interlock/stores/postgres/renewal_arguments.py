"""What a renewal says of its grants, as the driver sends it without another look.

A process may hold very many, and the driver would look at each of them what kind of thing it is. Mostly they are the
same from round to round, and then even this was done before.
"""

from collections.abc import Sequence
from typing import Any

from interlock.stores.leases import GrantIdentity


class RenewalArguments:
    """Of the grants that were last asked for. It keeps none of them alive."""

    def __init__(self) -> None:
        self._known: tuple[list[Any], ...] = ()
        self._arguments = "", b""

    def of(self, grants: Sequence[GrantIdentity]) -> tuple[str, bytes]:
        """Names, which have no control characters, and for each 24 bytes, as `interlock.grant_v1` makes them."""
        names, tokens = [grant.name for grant in grants], [grant.token for grant in grants]
        ids = [grant.grant_id for grant in grants]
        if (names, tokens, ids) != self._known:  # which costs next to nothing where they are the very same objects
            self._known = names, tokens, ids
            whole = [token.to_bytes(8, signed=True) + id_.bytes for token, id_ in zip(tokens, ids, strict=True)]
            self._arguments = "\x1f".join(names), b"".join(whole)
        return self._arguments
