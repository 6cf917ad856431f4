"""Reads the named statements of ``.sql`` files.

Each statement is headed by ``-- name: do_something`` and by one line that says which transition it makes.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

_HEADING = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)


def statements(package: str, file: str) -> dict[str, str]:
    """Returns the statements by name, without the comments that are lines: a parameter in one would count as used."""
    _, *rest = _HEADING.split(text(package, file))
    return {name: _COMMENT.sub("", sql).strip().rstrip(";") for name, sql in zip(rest[::2], rest[1::2], strict=True)}


def text(package: str, file: str) -> str:
    """Returns the text of a file of the package, by the package's own loader, because the package may be in an archive.

    `importlib.resources` does the same and takes longer to import.
    """
    home: Any = import_module(package)
    content: bytes = home.__loader__.get_data(str(Path(home.__file__).parent / file))
    return content.decode()
