"""What may be the name of a lease or of a session lock."""

from interlock.errors import ConfigurationError

_LONGEST = 255


def checked_name(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise ConfigurationError("A lock needs a name: some text, not an empty one.")
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise ConfigurationError("The name of a lock has to be text that can be written in UTF-8.") from error
    if size > _LONGEST:
        raise ConfigurationError(
            f"The name {name[:20]!r}… has {size} bytes: use {_LONGEST} at most (a hash of what is longer)."
        )
    if not all(character.isprintable() for character in name):
        raise ConfigurationError(f"The name {name!r} has control characters or line breaks in it: leave them out.")
    return name
