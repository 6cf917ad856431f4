"""SQL lives in ``.sql`` files; this finds the statements of one by their names.

A file is a row of statements, each headed by ``-- name: do_something`` and one line that says what transition it makes.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

_HEADING = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def statements(package: str, file: str) -> dict[str, str]:
    _, *rest = _HEADING.split(text(package, file))
    return {name: sql.strip().rstrip(";") for name, sql in zip(rest[::2], rest[1::2], strict=True)}


def text(package: str, file: str) -> str:
    """By the package's own loader: it may be in an archive. The library has that too, and takes longer to import."""
    home: Any = import_module(package)
    content: bytes = home.__loader__.get_data(str(Path(home.__file__).parent / file))
    return content.decode()
