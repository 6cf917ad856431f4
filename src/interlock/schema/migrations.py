"""The ordered changes to Interlock's own schema, read from ``migrations/NNNN_name.{pre,post}.sql``.

A *pre* migration only adds objects, so older releases go on working. It is applied when a release that needs it starts.
A *post* migration removes objects that older releases still use. An operator applies it once no older release runs.
So the phases alone show whether a release can work with a schema that is newer than the release.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, get_args

from interlock.stores.postgres.queries import in_schema

Phase = Literal["pre", "post"]

_FILE = re.compile(r"(?P<version>\d{4})_(?P<name>\w+)\.(?P<phase>pre|post)\.sql")


@dataclass(frozen=True)
class MigrationScript:
    """A migration's place in the order: by version, *pre* before *post*."""

    version: int
    phase: Phase

    @property
    def rank(self) -> tuple[int, int]:
        return self.version, get_args(Phase).index(self.phase)


@dataclass(frozen=True)
class Migration:
    step: MigrationScript
    name: str
    sql: str


@cache
def all_migrations() -> tuple[Migration, ...]:
    """Returns every migration of this release, in order."""
    found = []
    for file in files("interlock.schema").joinpath("migrations").iterdir():
        if match := _FILE.fullmatch(file.name):
            phase: Phase = "pre" if match["phase"] == "pre" else "post"
            found.append(
                Migration(MigrationScript(int(match["version"]), phase), match["name"], file.read_text("utf-8"))
            )
    return tuple(sorted(found, key=lambda migration: migration.step.rank))


def newest_version() -> int:
    """Returns the schema version that this release is written for."""
    return all_migrations()[-1].step.version


def whole_schema(schema: str) -> str:
    """Returns the SQL that creates the whole schema, for a database without Interlock."""
    return in_schema("-- Interlock's whole schema.\nCREATE SCHEMA interlock;\n\n", schema) + changes_since(0, schema)


def changes_since(version: int, schema: str) -> str:
    """Returns the SQL of the migrations after `version`, for a database whose schema has that version."""
    newer = [migration for migration in all_migrations() if migration.step.version > version]
    return in_schema("\n".join(f"{migration.sql}{_recorded(migration)}" for migration in newer), schema)


def _recorded(migration: Migration) -> str:
    step = migration.step
    return (
        "\nINSERT INTO interlock.migration (version, phase, name)"
        f" VALUES ({step.version}, '{step.phase}', '{migration.name}');\n"
    )
