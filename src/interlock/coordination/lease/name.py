"""Names of leases and session locks: the rules for users' names, and the names of leases that Interlock adds."""

from interlock.errors import ConfigurationError

_LONGEST = 255
_MARK = "##"
"""Separates a user's name from the part that Interlock adds. Users' names must not contain it."""
_LONGEST_PART = 64
_CONTROL_PLANE = "interlock:"


def checked_name(name: str, longest: int = _LONGEST) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigurationError("A lock needs a name: some text, not an empty one.")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise ConfigurationError("The name of a lock has to be text that can be written in UTF-8.") from error
    if size > longest:
        raise ConfigurationError(
            f"The name {name[:20]!r}… has {size} bytes: use {longest} at most (or a hash of a longer name)."
        )
    if not all(character.isprintable() for character in name):
        raise ConfigurationError(f"The name {name!r} has control characters or line breaks in it: leave them out.")
    return name


def own_name(name: str, longest: int = _LONGEST) -> str:
    """Check a name that a user gives to something new."""
    if isinstance(name, str) and _MARK in name:
        raise ConfigurationError(f"The name {name!r} has {_MARK!r} in it, which marks Interlock's own: leave it out.")
    return checked_name(name, longest)


def whole_name(name: str) -> str:
    """Check a user's name that Interlock will extend with parts: there has to be room for them."""
    return own_name(name, _LONGEST - _LONGEST_PART)


def is_internal(name: str) -> bool:
    """True if Interlock made this name for itself: behind a user's name, or for its control plane."""
    return _MARK in name or name.startswith(_CONTROL_PLANE)


def part(name: str, kind: str, which: object = None) -> str:
    """Return ``openai##slot/3``, or without `which` ``openai##once``."""
    return f"{name}{_MARK}{kind}" if which is None else f"{name}{_MARK}{kind}/{which}"


def parts(name: str, kind: str) -> str:
    """Return the prefix of the names of all parts of that kind."""
    return f"{name}{_MARK}{kind}/"
