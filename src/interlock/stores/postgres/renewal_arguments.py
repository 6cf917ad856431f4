"""The arguments of a renewal, encoded so that the driver sends them unchanged.

A process may hold very many grants, and the driver would check the type of each value. The grants are mostly the same
in every round, and then the encoded arguments of the previous round are used again.
"""

from collections.abc import Sequence
from typing import Any

from interlock.stores.leases import GrantIdentity


class RenewalArguments:
    """Remembers the arguments of the previous round, but keeps none of its grants alive."""

    def __init__(self) -> None:
        self._known: tuple[list[Any], ...] = ()
        self._arguments = "", b""

    def of(self, grants: Sequence[GrantIdentity]) -> tuple[str, bytes]:
        """Returns the names in one text, and 24 bytes for each grant in the form of `interlock.grant_v1`.

        The names are separated by a control character, because names have no control characters.
        """
        names, tokens = [grant.name for grant in grants], [grant.token for grant in grants]
        ids = [grant.grant_id for grant in grants]
        if (names, tokens, ids) != self._known:  # comparing costs almost nothing for identical objects
            self._known = names, tokens, ids
            whole = [token.to_bytes(8, signed=True) + id_.bytes for token, id_ in zip(tokens, ids, strict=True)]
            self._arguments = "\x1f".join(names), b"".join(whole)
        return self._arguments
