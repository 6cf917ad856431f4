"""SQL lives in ``.sql`` files; this finds a statement there by its name.

A file is a row of statements, each headed by ``-- name: do_something`` and one line that says what transition it makes.
They are written for the schema `interlock`; where that has another name, the name is put in here.
"""

import pkgutil
import re
from collections.abc import Iterator

from interlock.config import check_schema_name

_HEADING = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_OWN_SCHEMA = re.compile(r"\binterlock(?=\.\w)|(?<=\bSCHEMA )interlock\b")


def quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def in_schema(sql: str, schema: str) -> str:
    """The same SQL for Interlock's tables in `schema`."""
    check_schema_name(schema)
    return _OWN_SCHEMA.sub(quote_identifier(schema), sql)


class Queries:
    """The named statements of one file: ``queries["begin_run"]``."""

    def __init__(self, package: str, file: str, schema: str) -> None:
        text = pkgutil.get_data(package, file)  # importlib.resources would take longer to import than to read it
        assert text is not None
        self._statements = {name: in_schema(sql, schema) for name, sql in _named(text.decode())}

    def __getitem__(self, name: str) -> str:
        return self._statements[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._statements)


def _named(text: str) -> Iterator[tuple[str, str]]:
    _, *rest = _HEADING.split(text)
    for name, sql in zip(rest[::2], rest[1::2], strict=True):
        yield name, sql.strip().rstrip(";")
