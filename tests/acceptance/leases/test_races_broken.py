"""The test of the race tests: deliberately broken leases, each of which the check of histories has to detect.

The same faults leave correct leases without a violation.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from interlock.embedded import Cluster
from support import broken_leases, races
from support.crashes import careless_server
from support.crews import Crew, crew
from support.histories import Fault
from support.races import Crash, Trouble

pytestmark = [pytest.mark.timeout(300), pytest.mark.exhaustive]
TIMES = 25
"""The most rounds: a race is not lost each time, and on a busy machine seldom."""

Breaking = Callable[[str], None]
OVERLAP: set[Fault] = {"two trusted", "grant taken away"}
STALE_WRITE: set[Fault] = {"write went back", "write came late"}


def named(part: object) -> str:
    """The test's id."""
    return getattr(part, "__name__", "").replace("_", " ") or " or ".join(sorted(part))  # type: ignore[call-overload]


def broken_in_its_own_process(url: str) -> None:
    """The database is correct, the client is broken; see `support.worker_variants`."""


@pytest.fixture
def server() -> Iterator[Cluster]:
    with careless_server() as server:
        yield server


def judge_each_time(racers: Crew, fault: Iterator[None], *, calm: bool = False) -> Iterator[set[Fault]]:
    with closing(fault):  # type: ignore[type-var] # all of them are generators
        for _ in islice(fault, TIMES):
            found, _ = racers.judge(calm=calm)
            yield {violation.fault for violation in found}


@pytest.mark.parametrize(
    ("break_on_purpose", "fault", "faults"),
    [
        (broken_leases.clients_clock, races.nothing_happens, {"two trusted"}),
        (broken_leases.no_guard, races.a_holder_stands_still, STALE_WRITE),
        (broken_leases.guard_for_share, races.a_guard_outlasts_the_ttl, {"lost for nothing"}),
        (broken_leases.release_by_name, races.a_holder_stands_still, OVERLAP),
        (broken_leases.release_by_holder, races.the_answer_to_a_release_is_lost, OVERLAP),
        (broken_leases.delete_on_release, races.nothing_happens, {"token repeated"}),
        (broken_in_its_own_process, races.answers_are_slow_to_one_who_trusts_from_receipt, {"two trusted"}),
    ],
    ids=named,
)
def test_a_broken_variant_is_detected(
    interlock_url: str, tmp_path: Path, break_on_purpose: Breaking, fault: Trouble, faults: set[Fault]
) -> None:
    break_on_purpose(interlock_url)
    calm = fault is races.a_guard_outlasts_the_ttl
    with crew(interlock_url, tmp_path, ["feeds"]) as racers:
        assert any(found & faults for found in judge_each_time(racers, fault(racers), calm=calm))


@pytest.mark.parametrize(
    ("break_on_purpose", "fault"),
    [
        (broken_leases.renewals_that_do_not_wait_for_the_disk, races.a_crash_after_renewals),
        (broken_leases.grants_that_do_not_wait_for_the_disk, races.a_crash_after_a_grant),
    ],
    ids=named,
)
def test_a_variant_that_loses_data_in_a_crash_is_detected(
    server: Cluster, tmp_path: Path, break_on_purpose: Breaking, fault: Crash
) -> None:
    break_on_purpose(server.url())
    with crew(server.url(tcp=True), tmp_path, ["feeds"]) as racers:
        assert any(found & OVERLAP for found in judge_each_time(racers, fault(racers, server)))


@pytest.mark.parametrize(
    "fault",
    [
        races.a_holder_stands_still,
        races.a_guard_outlasts_the_ttl,
        races.the_answer_to_a_release_is_lost,
        races.answers_are_slow,
    ],
    ids=named,
)
def test_the_correct_variant_survives_the_same_faults(interlock_url: str, tmp_path: Path, fault: Trouble) -> None:
    calm = fault is races.a_guard_outlasts_the_ttl
    with crew(interlock_url, tmp_path, ["feeds"]) as racers:
        assert next(judge_each_time(racers, fault(racers), calm=calm)) == set()
        racers.dismiss()
        assert racers.judge(calm=calm)[0] == []


@pytest.mark.parametrize("fault", [races.a_crash_after_renewals, races.a_crash_after_a_grant], ids=named)
def test_the_correct_variant_survives_the_same_crashes(server: Cluster, tmp_path: Path, fault: Crash) -> None:
    with crew(server.url(tcp=True), tmp_path, ["feeds"]) as racers:
        assert next(judge_each_time(racers, fault(racers, server))) == set()
