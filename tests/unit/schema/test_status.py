"""The state of a schema for a release, over all combinations of a few migrations."""

import itertools
from collections.abc import Iterator

import pytest

from interlock import errors
from interlock.schema import SchemaStatus, State
from interlock.schema.migrations import MigrationScript
from interlock.schema.status import judge

STEPS = [
    MigrationScript(1, "pre"),
    MigrationScript(2, "pre"),
    MigrationScript(2, "post"),
    MigrationScript(3, "pre"),
    MigrationScript(3, "post"),
]


def subsets() -> Iterator[frozenset[MigrationScript]]:
    for size in range(1, len(STEPS) + 1):
        yield from map(frozenset, itertools.combinations(STEPS, size))


def test_every_combination_has_the_one_state_that_follows() -> None:
    for known, applied in itertools.product(subsets(), subsets()):
        beyond, lacking = applied - known, known - applied
        if MigrationScript(2, "post") in beyond or MigrationScript(3, "post") in beyond:
            expected = State.TOO_NEW
        elif {step for step in lacking if step.phase == "pre"}:
            expected = State.OUTDATED
        else:
            expected = State.NEWER if beyond else State.CURRENT
        assert judge(applied, known) is expected, (applied, known)


def test_a_post_migration_that_is_still_to_come_leaves_the_schema_usable() -> None:
    assert judge({MigrationScript(1, "pre")}, {MigrationScript(1, "pre"), MigrationScript(2, "post")}) is State.CURRENT


def test_a_post_migration_that_was_added_under_a_known_number_is_too_new_as_well() -> None:
    assert judge({MigrationScript(2, "pre"), MigrationScript(2, "post")}, {MigrationScript(2, "pre")}) is State.TOO_NEW


@pytest.mark.parametrize(
    ("state", "error", "advice"),
    [
        (State.MISSING, errors.SchemaMissing, "run `interlock schema apply`"),
        (State.OUTDATED, errors.SchemaOutdated, "run `interlock schema apply`"),
        (State.FOREIGN, errors.SchemaForeign, "name another schema with INTERLOCK_SCHEMA"),
        (State.TOO_NEW, errors.SchemaTooNew, "upgrade Interlock here"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_with_advice(
    state: State, error: type[errors.SchemaError], advice: str
) -> None:
    with pytest.raises(error, match=advice):
        SchemaStatus("own", state, frozenset(), ()).require()


@pytest.mark.parametrize("state", [State.CURRENT, State.NEWER])
def test_a_schema_that_can_be_used_is_let_pass(state: State) -> None:
    SchemaStatus("own", state, frozenset(), ()).require()
