"""tooz's own tests of a coordinator, in a process of their own, on both stores."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from support.tooz_page import PAGE, part_of, run_suite
from support.tooz_suite import Result

pytestmark = pytest.mark.exhaustive

NO_SHARED = "Locks can be shared only if the coordinator's URL has a maximum number of readers, such as readers=20."
ON_POSTGRESQL = {
    "TestAPI.test_watch_join_group_disappear": (
        "This test only works with coordinators that have the ability to destroy groups."
    ),
}
ON_SQLITE = ON_POSTGRESQL | {
    "TestAPI.test_connection_error_bad_host": "This driver is not distributed across hosts",
    "TestAPI.test_get_lock_locking_exclusive_and_shared": NO_SHARED,
    "TestAPI.test_get_lock_locking_shared_and_exclusive": NO_SHARED,
    "TestAPI.test_get_shared_lock": NO_SHARED,
    "TestAPI.test_get_shared_lock_locking_same_lock_twice": NO_SHARED,
    "TestAPI.test_get_shared_lock_locking_two_lock": NO_SHARED,
}
EVERY_TEST = 88


def check(results: Sequence[Result], not_applicable: dict[str, str], column: int) -> None:
    assert [result for result in results if result.outcome == "failed"] == []
    assert {result.test: result.reason for result in results if result.outcome == "skipped"} == not_applicable
    assert len(results) == EVERY_TEST
    lines = [line.split(" | ") for line in part_of(PAGE.read_text()).splitlines() if line.startswith("| `")]
    told = {line[0].strip("| `"): line[column].removesuffix(" |") for line in lines}
    assert told == {
        result.test: f"not applicable: {result.reason}" if result.outcome == "skipped" else result.outcome
        for result in results
    }, "the page says something else: write it anew with python -m support.tooz_page"


@pytest.mark.timeout(180)
def test_tooz_s_own_tests_pass_on_postgresql(interlock_url: str) -> None:
    check(run_suite(f"interlock+{interlock_url}?readers=3"), ON_POSTGRESQL, 1)


@pytest.mark.timeout(180)
def test_tooz_s_own_tests_pass_on_sqlite(tmp_path: Path) -> None:
    check(run_suite(f"interlock+sqlite:///{tmp_path}/tooz.db"), ON_SQLITE, 2)
