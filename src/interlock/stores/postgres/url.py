"""Database URLs, as far as they may be shown."""

from urllib.parse import SplitResult, quote, unquote, urlsplit

from interlock.errors import ConfigurationError

_SCHEMES = ("postgresql", "postgres")


def checked(url: str) -> str:
    """The URL itself, or a ConfigurationError that says what is wrong without repeating a password."""
    if not url:
        raise ConfigurationError("No database was named: set INTERLOCK_DATABASE_URL or pass --database.")
    try:
        parts = urlsplit(url)
        readable = parts.port != 0 and not _is_cut_short(parts)
    except ValueError:  # its message may quote a piece of the password
        readable = False
    if not readable:
        raise ConfigurationError(
            f"The database URL cannot be read: {_FORM}. In user and password write %2F for a /, %3F for a ?, "
            "%23 for a # and %40 for an @."
        )
    if parts.scheme not in _SCHEMES:
        shown = f"begins with {parts.scheme + '://'!r}" if "://" in url else "has no scheme"
        raise ConfigurationError(f"The database URL {shown}: {_FORM}.")
    return url


def _is_cut_short(parts: SplitResult) -> bool:
    """Whether a password's own / ? or # has ended the address, so that the rest of it stands where it would be shown."""
    return "@" not in parts.netloc and "@" in parts.path + parts.fragment + parts.query.partition("=")[0]


def redacted(url: str) -> str:
    """The URL for eyes and logs: no password, no parameters (they may hold one too)."""
    parts = urlsplit(url)
    host = unquote(parts.netloc.rpartition("@")[2])
    user = f"{quote(unquote(parts.username))}@" if parts.username else ""
    return f"{parts.scheme}://{user}{host}{parts.path}"


_FORM = "it should look like postgresql://user:password@host:5432/database"
