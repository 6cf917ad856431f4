"""SQL lives in ``.sql`` files; this finds the statements of one by their names.

A file is a row of statements, each headed by ``-- name: do_something`` and one line that says what transition it makes.
"""

import pkgutil
import re

_HEADING = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def statements(package: str, file: str) -> dict[str, str]:
    _, *rest = _HEADING.split(text(package, file))
    return {name: sql.strip().rstrip(";") for name, sql in zip(rest[::2], rest[1::2], strict=True)}


def text(package: str, file: str) -> str:
    content = pkgutil.get_data(package, file)  # importlib.resources would take longer to import than to read it
    assert content is not None
    return content.decode()
