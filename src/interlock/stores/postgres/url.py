"""Database URLs, as far as they may be shown."""

from urllib.parse import quote, unquote, urlsplit

from interlock.errors import ConfigurationError

_SCHEMES = ("postgresql", "postgres")


def checked(url: str) -> str:
    """The URL itself, or a ConfigurationError that says what is wrong without repeating a password."""
    if not url:
        raise ConfigurationError("No database was named: set INTERLOCK_DATABASE_URL or pass --database.")
    try:
        scheme, port = urlsplit(url).scheme, urlsplit(url).port
    except ValueError as error:
        raise ConfigurationError(f"The database URL cannot be read ({error}): {_FORM}.") from None
    del port
    if scheme not in _SCHEMES:
        shown = f"begins with {scheme + '://'!r}" if "://" in url else "has no scheme"
        raise ConfigurationError(f"The database URL {shown}: {_FORM}.")
    return url


def redacted(url: str) -> str:
    """The URL for eyes and logs: no password, no parameters (they may hold one too)."""
    parts = urlsplit(url)
    host = unquote(parts.hostname or "")
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    user = f"{quote(unquote(parts.username))}@" if parts.username else ""
    return f"{parts.scheme}://{user}{host}{port}{parts.path}"


_FORM = "it should look like postgresql://user:password@host:5432/database"
