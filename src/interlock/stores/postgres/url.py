"""Database URLs, as far as they may be shown."""

from urllib.parse import quote, unquote, urlsplit

from interlock.errors import ConfigurationError

_SCHEMES = ("postgresql", "postgres")
_FORM = "it should look like postgresql://user:password@host:5432/database"


def checked(url: str) -> str:
    """The URL itself, or a ConfigurationError that says what is wrong without repeating a password."""
    if not url:
        raise ConfigurationError("No database was named: set INTERLOCK_DATABASE_URL or pass --database.")
    scheme = url.partition(":")[0] if "://" in url else ""
    if scheme.lower() not in _SCHEMES:
        shown = f"begins with {scheme + '://'!r}" if scheme else "has no scheme"
        raise ConfigurationError(f"The database URL {shown}: {_FORM}.")
    if not _is_readable(url):
        raise ConfigurationError(
            f"The database URL cannot be read: {_FORM}, where / ? # and @ in a password are %2F %3F %23 and %40."
        )
    return url


def redacted(url: str) -> str:
    """The URL for eyes and logs: no password, no parameters (they may hold one too)."""
    if not _is_readable(url):
        return "a URL that cannot be read"
    parts = urlsplit(url)
    user = f"{quote(unquote(parts.username))}@" if parts.username else ""
    address = unquote(parts.netloc.rpartition("@")[2])
    return f"{parts.scheme}://{user}{address}{parts.path}"


def _is_readable(url: str) -> bool:
    """A password's own / ? or # ends the address too early: the rest of it then stands where it would be shown."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # not to be passed on: it quotes what stands where the port should be
        return False
    return "@" not in parts.path + parts.fragment + parts.query.partition("=")[0]
