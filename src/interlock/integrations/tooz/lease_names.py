"""How tooz's groups, members, leaders and locks are called among the leases. Their ids may be any bytes."""

from typing import NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from interlock.coordination.lease.name import checked_name, part, parts

_OURS = "tooz"

GROUPS = part(_OURS, "groups")
"""The lease under which the list of groups is changed, and the key of its record."""


def as_bytes(given: bytes | str) -> bytes:
    return given.encode() if isinstance(given, str) else given


def quoted(given: bytes | str) -> str:
    """Every id as one word of printable characters, which has no slash in it."""
    return quote_from_bytes(as_bytes(given), safe="")


def unquoted(word: str) -> bytes:
    return unquote_to_bytes(word)


def lock(name: bytes) -> str:
    """One that others, who do not use tooz, can take as well."""
    return f"{_OURS}/lock/{quoted(name)}"


def leader(group: bytes) -> str:
    return checked_name(part(_OURS, "leader", quoted(group)))


def members(group: bytes) -> str:
    """How the names of all members of a group begin."""
    return parts(_OURS, "member") + quoted(group) + "/"


def member(group: bytes, member_id: bytes) -> str:
    """The lease that makes one a member, and says what it can do."""
    return checked_name(members(group) + quoted(member_id))


def update(group: bytes, member_id: bytes, token: int, number: int) -> str:
    """The lease by which the member with that token says so anew."""
    return checked_name(f"{member(group, member_id)}/{token}/{number}")


class Word(NamedTuple):
    """Whose lease it is; `updates` is 0 for the one that makes it a member."""

    member_id: bytes
    token: int
    updates: int


def parsed(name: str) -> Word:
    """Of a name without what `members` says."""
    word, *rest = name.split("/")
    return Word(unquoted(word), int(rest[0]) if rest else 0, int(rest[1]) if rest else 0)
