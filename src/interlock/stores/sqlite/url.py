"""Database URLs of SQLite: ``sqlite:///file`` in the working directory, ``sqlite:////directory/file`` anywhere."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from interlock.errors import ConfigurationError

_FORM = "it should look like sqlite:///file.db, or sqlite:////directory/file.db for a path from the root"


def file_of(url: str) -> Path:
    """Returns the absolute path of the file, because the working directory may change. Opens nothing."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc or not path.startswith("/") or len(path) < 2 or path.endswith("/"):
        raise ConfigurationError(f"The database URL {url!r} names no file: {_FORM}.")
    if parts.query or parts.fragment:
        raise ConfigurationError(
            f"The database URL {url!r} has options, and a SQLite file takes none: leave out the ? or # and the text "
            "after it."
        )
    if path == "/:memory:":
        raise ConfigurationError("A SQLite database in memory is visible to one connection only: name a file.")
    if not path.isprintable():
        raise ConfigurationError(
            f"The database URL {url!r} has control characters in it: leave the control characters out."
        )
    return Path(path[1:]).absolute()
