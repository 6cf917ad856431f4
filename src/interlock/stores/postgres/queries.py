"""Reads named statements. They are written for the schema `interlock`, and changed if the schema has another name."""

import re
from collections.abc import Iterator

from interlock.config import check_schema_name
from interlock.stores.statements import statements

_OWN_SCHEMA = re.compile(r"\binterlock(?=\.\w)|(?<=\bSCHEMA )interlock\b")


def quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def in_schema(sql: str, schema: str) -> str:
    """Returns the same SQL for Interlock's tables in `schema`."""
    check_schema_name(schema)
    return _OWN_SCHEMA.sub(quote_identifier(schema), sql)


class Queries:
    """The named statements of one file: ``queries["begin_run"]``."""

    def __init__(self, package: str, file: str, schema: str) -> None:
        self._statements = {name: in_schema(sql, schema) for name, sql in statements(package, file).items()}

    def __getitem__(self, name: str) -> str:
        return self._statements[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._statements)
