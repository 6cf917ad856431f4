"""Names of leases and session locks: the rules for users' names, and the names of leases that Interlock adds."""

from interlock.errors import ConfigurationError

_LONGEST = 255
_MARK = "##"
"""Separates a user's name from the part that Interlock adds. Users' names must not contain it."""
_LONGEST_PART = 64
_CONTROL_PLANE = "interlock:"


def checked_name(name: str, longest: int = _LONGEST) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigurationError("The name of a lock is empty or not text: give the lock a name.")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            "The name of a lock has characters that UTF-8 cannot encode: leave them out."
        ) from error
    if size > longest:
        raise ConfigurationError(
            f"The name {name[:20]!r}… has {size} bytes, which is too long: use {longest} bytes at most, or a hash of "
            "the name."
        )
    if not all(character.isprintable() for character in name):
        raise ConfigurationError(f"The name {name!r} has control characters or line breaks in it: leave them out.")
    return name


def own_name(name: str, longest: int = _LONGEST) -> str:
    """Check the name that a user gives to a new lease or lock."""
    if isinstance(name, str) and _MARK in name:
        raise ConfigurationError(
            f"The name {name!r} contains {_MARK!r}, which marks Interlock's own names: leave {_MARK!r} out."
        )
    return checked_name(name, longest)


def whole_name(name: str) -> str:
    """Check a user's name that Interlock will extend: it has to leave room for the added part."""
    return own_name(name, _LONGEST - _LONGEST_PART)


def is_internal(name: str) -> bool:
    """Return True if Interlock made this name for itself: the name has a part added to a user's name, or belongs to
    Interlock's control plane."""
    return _MARK in name or name.startswith(_CONTROL_PLANE)


def part(name: str, kind: str, which: object = None) -> str:
    """Return the name with Interlock's part added: ``openai##slot/3``, or without `which` ``openai##once``."""
    return f"{name}{_MARK}{kind}" if which is None else f"{name}{_MARK}{kind}/{which}"


def parts(name: str, kind: str) -> str:
    """Return the prefix that the names of all parts of that kind have in common."""
    return f"{name}{_MARK}{kind}/"
