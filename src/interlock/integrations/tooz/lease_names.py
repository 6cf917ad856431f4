"""The names of the leases for tooz's groups, members, leaders and locks, whose ids may be any bytes."""

from typing import NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from interlock.coordination.lease.name import checked_name, part, parts

_PREFIX = "tooz"

GROUPS = part(_PREFIX, "groups")
"""The lease whose holder may change the list of groups. This name is also the key of the record with the list."""


def as_bytes(given: bytes | str) -> bytes:
    return given.encode() if isinstance(given, str) else given


def quoted(given: bytes | str) -> str:
    """Returns any id as printable characters without a slash."""
    return quote_from_bytes(as_bytes(given), safe="")


def unquoted(word: str) -> bytes:
    return unquote_to_bytes(word)


def lock(name: bytes) -> str:
    """Returns the name of an ordinary lease, which programs without tooz can acquire too."""
    return f"{_PREFIX}/lock/{quoted(name)}"


def leader(group: bytes) -> str:
    return checked_name(part(_PREFIX, "leader", quoted(group)))


def members(group: bytes) -> str:
    """Returns the prefix of the lease names of a group's members."""
    return parts(_PREFIX, "member") + quoted(group) + "/"


def member(group: bytes, member_id: bytes) -> str:
    """Returns the name of the lease that makes a member part of the group. Its metadata has the capabilities."""
    return checked_name(members(group) + quoted(member_id))


def update(group: bytes, member_id: bytes, token: int, number: int) -> str:
    """Returns the name of the lease with newer capabilities of the member whose membership has this token."""
    return checked_name(f"{member(group, member_id)}/{token}/{number}")


class MemberLease(NamedTuple):
    """The member, token and update number of a lease name. `updates` is 0 for the lease of the membership itself."""

    member_id: bytes
    token: int
    updates: int


def parsed(name: str) -> MemberLease:
    """Returns the parts of a lease name without the prefix `members`."""
    word, *rest = name.split("/")
    return MemberLease(unquoted(word), int(rest[0]) if rest else 0, int(rest[1]) if rest else 0)
