"""A lease's item: its attributes, and the conditions and expressions for writing it.

The item stays when the lease is released, because the next token has to be greater than the item's `fence`. DynamoDB
deletes items by an attribute that is a number, so times are text, except `ttl`: a week after the last use. A token is
the clock in microseconds, or the fence plus one if that is greater, so tokens grow even if the item was deleted.

Expressions write attributes with ``#``, and `names` maps them: `ttl` and other names are reserved words of DynamoDB.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from interlock.errors import StatementFailed
from interlock.stores.leases import GrantIdentity

Item = dict[str, dict[str, str]]

KEPT_FOR = 7 * 86400.0
"""Seconds for which an item is kept after the last use of its lease, if the table deletes by `ttl`."""

FREE = "attribute_not_exists(#key) OR (attribute_not_exists(#owner_id) AND #fence < :token)"
UNCHANGED = "#owner_id = :seen_owner AND #fence = :seen_fence AND #version = :seen_version"
MINE = "#owner_id = :owner_id AND #fence = :token"
NOT_OLDER = "#version <= :version"
"""A renewal that arrives after a later one must not set back the written expiry, which other processes may use."""

RENEW = "SET #version = :version, #expires_at = :expires_at, #ttl = :ttl"
RELEASE = "SET #last_owner_id = #owner_id, #ttl = :ttl REMOVE #owner_id, #expires_at, #listing"

END_BROKEN = "SET #last_owner_id = #owner_id, #ttl = :ttl REMOVE #owner_id, #expires_at, #listing"
IS_BROKEN = "#last_owner_id = :owner_id AND #fence = :token AND begins_with(#owner_id, :broken)"

SEEN = "#owner_id = :seen_owner AND #fence = :seen_fence"
TAKEN = (
    "SET #last_owner_id = #owner_id, #owner_id = :broken_owner, "
    "#broken_by = :by, #broken_at = :at, #broken_why = :reason"
)
FREED = (
    "SET #last_owner_id = #owner_id, #ttl = :ttl, #broken_by = :by, #broken_at = :at, #broken_why = :reason "
    "REMOVE #owner_id, #expires_at, #listing"
)
BROKEN = "broken "
"""The `owner_id` of a broken lease that is not free yet begins with this text."""

_IN_EXPRESSIONS = (
    "owner_id", "last_owner_id", "fence", "version", "expires_at", "listing", "ttl", "broken_by", "broken_at",
    "broken_why",
)  # fmt: skip
_DESCRIBING = ("lock_type", "lease_seconds", "created_at", "holder", "host", "pid", "metadata")
_OF_RECORDS = ("token", "value", "written_at")
ATTRIBUTES = frozenset((*_IN_EXPRESSIONS, *_DESCRIBING, *_OF_RECORDS))
"""A table's key must not have one of these names."""


class Breaking(NamedTuple):
    """The operator that broke the lease, the time, and the reason."""

    done_by: str
    done_at: float
    reason: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """`owner_id` is the id of the grant that holds the lease, or None if the lease is free."""

    name: str
    owner_id: str | None
    last_owner_id: str | None
    token: int
    version: int
    ttl: float
    expires_at: float
    acquired_at: float
    holder: str | None
    host: str | None
    pid: int | None
    metadata: str | None
    used_at: float
    broken: Breaking | None

    @property
    def is_broken(self) -> bool:
        """True if an operator broke the lease, and it is not free for others yet."""
        return self.owner_id is not None and self.owner_id.startswith(BROKEN)

    @property
    def was_freed_at_once(self) -> bool:
        """True if the lease was broken with `immediate`, and was not acquired since."""
        return self.broken is not None and self.owner_id is None and not (self.last_owner_id or "").startswith(BROKEN)

    def broken_of(self, grant: GrantIdentity) -> "Breaking | None":
        """Returns the break that ended this grant, or None if no operator broke the grant."""
        return self.broken if self.token == grant.token and self.last_owner_id == str(grant.grant_id) else None

    def is_held_by(self, grant_id: UUID) -> bool:
        return self.owner_id == str(grant_id)

    @property
    def state(self) -> tuple[str | None, int, int]:
        """A value that changes with each write of a holder, and never repeats."""
        return self.owner_id, self.token, self.version


def read(item: Mapping[str, Any], key: str, prefix: str) -> Row:
    """Returns the row of an item. `key` is the table's key attribute: its value is `prefix` and the lease's name."""
    name = item[key]["S"]
    if "fence" not in item or "version" not in item:
        raise StatementFailed(
            f"The item {name!r} was not written by Interlock: delete the item once its program has stopped."
        )
    ttl, acquired_at = float(item["lease_seconds"]["N"]), moment(item["created_at"])
    return Row(
        name=name.removeprefix(prefix),
        owner_id=_text(item, "owner_id"),
        last_owner_id=_text(item, "last_owner_id"),
        token=int(item["fence"]["N"]),
        version=int(item["version"]["N"]),
        ttl=ttl,
        expires_at=moment(item["expires_at"]) if "expires_at" in item else 0.0,
        acquired_at=acquired_at,
        holder=_text(item, "holder"),
        host=_text(item, "host"),
        pid=int(item["pid"]["N"]) if "pid" in item else None,
        metadata=_text(item, "metadata"),
        used_at=max(acquired_at, int(item["ttl"]["N"]) - ttl - KEPT_FOR) if "ttl" in item else acquired_at,
        broken=_breaking(item),
    )


def _breaking(item: Mapping[str, Any]) -> Breaking | None:
    if "broken_by" not in item:
        return None
    return Breaking(item["broken_by"]["S"], moment(item["broken_at"]), item["broken_why"]["S"] or None)


def mine(grant: GrantIdentity) -> Item:
    """Returns the values for the condition `MINE`."""
    return {":owner_id": {"S": str(grant.grant_id)}, ":token": {"N": str(grant.token)}}


def names(key: str, *expressions: str) -> dict[str, str]:
    """Returns the names that these expressions use: DynamoDB refuses names that no expression uses."""
    text = " ".join(expressions)
    found = {f"#{name}": name for name in _IN_EXPRESSIONS if f"#{name}" in text}
    return found | ({"#key": key} if "#key" in text else {})


def shown(moment: float) -> dict[str, str]:
    """Returns the time as readable text. The texts sort in the order of time."""
    return {"S": datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds")}


def moment(value: Mapping[str, str]) -> float:
    """Returns the time that `shown` made a text of."""
    return datetime.fromisoformat(value["S"]).timestamp()


def deleted_at(now: float, ttl: float) -> dict[str, str]:
    return {"N": str(int(now + ttl + KEPT_FOR))}


def _text(item: Mapping[str, Any], name: str) -> str | None:
    return item[name]["S"] if name in item else None
