"""The privileges that a role needs, read from the statements that `interlock schema grant` runs."""

import re
from collections.abc import Iterator

from interlock.doctor.facts import NamesSomething, Need
from interlock.stores.postgres import Queries

_GRANT = re.compile(
    r"GRANT\s+(?P<privileges>[\w\s,]+?)\s+ON\s+(?:(?P<kind>SCHEMA|TABLE|FUNCTION|PROCEDURE)\s+)?(?P<objects>.+?)\s+TO\s+:role",
    re.DOTALL,
)
_NAMES = {"table": re.compile(r"\.(\w+)"), "function": re.compile(r"\.(\w+)\s*\(")}


def needs(schema: str) -> dict[str, tuple[Need, ...]]:
    """Returns the needed privileges, by the part of Interlock that they are for."""
    sections = Queries("interlock.schema", "grants.sql", schema)
    return {part: tuple(dict.fromkeys(_of(sections[part], schema))) for part in sections}


def _of(script: str, schema: str) -> Iterator[Need]:
    for statement in re.sub(r"--.*", "", script).split(";"):
        match = _GRANT.fullmatch(statement.strip())
        assert match, f"not a GRANT that the doctor can read: {statement}"
        kind: NamesSomething = _KINDS[match["kind"]]
        names = [schema] if kind == "schema" else _NAMES[kind].findall(match["objects"])
        for privilege in match["privileges"].split(","):
            yield from (Need(privilege.strip(), kind, name) for name in names)


_KINDS: dict[str | None, NamesSomething] = {
    "SCHEMA": "schema",
    "FUNCTION": "function",
    "PROCEDURE": "function",  # one catalogue has both
    "TABLE": "table",
    None: "table",
}
