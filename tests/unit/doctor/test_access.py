"""Interlock's schema, and what a role may do with it."""

from dataclasses import replace
from itertools import product

import pytest

from interlock.doctor import Verdict
from interlock.doctor.checks.access import privileges, schema
from interlock.doctor.facts import Need, Privilege
from interlock.doctor.needs import needs
from interlock.schema import State
from support.doctor_facts import ACQUIRE, HEALTHY, INSERT, NEEDS, RELEASE, UPDATE, USAGE, but

assert HEALTHY.schema is not None
CURRENT = HEALTHY.schema

LACKS_ALL = dict.fromkeys(HEALTHY.held, Privilege.NO)


def holding(*held: Need) -> dict[Need, Privilege]:
    return LACKS_ALL | dict.fromkeys(held, Privilege.YES)


@pytest.mark.parametrize("state", State)
def test_a_schema_is_fine_if_this_release_can_work_with_it(state: State) -> None:
    (finding,) = schema(but(schema=replace(CURRENT, state=state)))
    assert finding.verdict is (Verdict.OK if state in (State.CURRENT, State.NEWER) else Verdict.PROBLEM)
    assert finding.exit_status == 78
    assert finding.facts["state"] == state.value


def test_a_newer_schema_is_reported_as_newer() -> None:
    (finding,) = schema(but(schema=replace(CURRENT, state=State.NEWER)))
    assert "newer than this release" in finding.says


def test_a_schema_that_the_role_may_not_look_at() -> None:
    (finding,) = schema(but(schema=None))
    assert (finding.verdict, finding.exit_status) == (Verdict.PROBLEM, 77)
    assert "`interlock schema grant web`" in finding.remedy


@pytest.mark.parametrize(("state", "may"), list(product([State.MISSING, State.FOREIGN], [True, False])))
def test_without_a_schema_the_right_to_create_it_counts(state: State, may: bool) -> None:
    (finding,) = privileges(but(schema=replace(CURRENT, state=state), may_create_schema=may, held=LACKS_ALL))
    assert finding.verdict is (Verdict.OK if may else Verdict.WARNING)
    assert may or "`interlock schema apply`" in finding.remedy


@pytest.mark.parametrize(
    ("held", "verdicts", "says"),
    [
        (holding(*HEALTHY.held), [Verdict.OK], "may use gate and leases."),
        (holding(USAGE, ACQUIRE, RELEASE), [Verdict.OK], "may use leases, but not gate."),
        (holding(USAGE, INSERT, UPDATE), [Verdict.OK], "may use gate, but not leases."),
        (
            holding(USAGE, INSERT, UPDATE) | {ACQUIRE: Privilege.BY_ALL},
            [Verdict.OK],
            "may use gate, but not leases.",
        ),
        (holding(USAGE), [Verdict.PROBLEM], "may not use any part"),
        (LACKS_ALL, [Verdict.PROBLEM], "may not use any part"),
        (LACKS_ALL | {ACQUIRE: Privilege.BY_ALL}, [Verdict.PROBLEM], "may not use any part"),
        (
            holding(USAGE, INSERT, UPDATE, ACQUIRE),
            [Verdict.PROBLEM],
            "it lacks EXECUTE on function release_v1.",
        ),
        (holding(INSERT, UPDATE, ACQUIRE, RELEASE), [Verdict.PROBLEM] * 2, "it lacks USAGE on schema interlock."),
        (holding(USAGE, INSERT, ACQUIRE), [Verdict.PROBLEM] * 2, "it lacks"),
        (dict.fromkeys(HEALTHY.held, Privilege.BY_ALL), [Verdict.OK], "may use gate and leases."),
    ],
)
def test_a_role_may_use_fully_granted_parts(held: dict[Need, Privilege], verdicts: list[Verdict], says: str) -> None:
    findings = list(privileges(but(held=held)))
    assert [finding.verdict for finding in findings] == verdicts
    for finding in findings:
        assert says in finding.says
        assert finding.verdict is Verdict.OK or finding.exit_status == 77


def test_the_remedy_grants_no_more_than_intended() -> None:
    (finding,) = privileges(but(held=holding(USAGE, INSERT, UPDATE, ACQUIRE)))
    assert "`interlock schema grant web --for leases`" in finding.remedy


def test_parts_missing_in_an_older_schema_are_not_judged() -> None:
    held = {**HEALTHY.held, ACQUIRE: Privilege.ABSENT, RELEASE: Privilege.ABSENT}
    (finding,) = privileges(but(held=held, schema=replace(CURRENT, state=State.OUTDATED)))
    assert finding.says == "The role web may use gate."


def test_of_many_that_are_lacking_a_few_are_named() -> None:
    many = tuple(Need("EXECUTE", "function", f"number_{number}_v1") for number in range(9))
    held = {**HEALTHY.held, many[8]: Privilege.YES, **dict.fromkeys(many[:8], Privilege.NO)}
    (finding,) = privileges(but(needs={**NEEDS, "more": (USAGE, *many)}, held=held))
    assert "number_2_v1 and 5 more." in finding.says
    assert "number_3_v1" not in finding.says


def test_needs_equal_the_grants() -> None:
    found = needs("own")
    assert set(found["gate"]) >= {
        Need("USAGE", "schema", "own"),
        Need("SELECT", "table", "migration"),
        Need("EXECUTE", "function", "now_v1"),
        Need("INSERT", "table", "gate_run"),
        Need("UPDATE", "table", "gate_run"),
    }
    assert {need.kind for use in found.values() for need in use} == {"schema", "table", "function"}
    assert all(need.name.isidentifier() for use in found.values() for need in use)
