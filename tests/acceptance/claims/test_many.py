"""A thousand claims of one name, from eight processes at once: one gets it, and all others get its owner."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from support import claim_worker
from support.postgres import execute
from support.protocol import rewrite

PROCESSES, CLAIMS = 8, 125

Results = list[tuple[str, str, str]]
"""Returns owner, result, winner."""


def claim_all_at_once(url: str, claims: int) -> Results:
    owners = [[f"owner {process}-{number}" for number in range(claims)] for process in range(PROCESSES)]
    running = [
        subprocess.Popen(
            [sys.executable, str(claim_worker.__file__), url, "mydb", ",".join(of_one)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for of_one in owners
    ]
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        ends = [process.communicate() for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert [complaint for _, complaint in ends] == [""] * PROCESSES
    return [tuple(one) for said, _ in ends for one in json.loads(said)]


def check_results(url: str, results: Results) -> None:
    [[winner]] = execute(url, "SELECT owner FROM interlock.claim")
    assert Counter(answer for _, answer, _ in results) == {"claimed": 1, "taken": len(results) - 1}
    assert {named for _, _, named in results} == {winner}


def deadlocks(url: str) -> int:
    [[count]] = execute(url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return int(count)


def test_one_gets_it_and_all_others_get_its_owner(interlock_url: str) -> None:
    results = claim_all_at_once(interlock_url, CLAIMS)
    assert len(results) == PROCESSES * CLAIMS
    check_results(interlock_url, results)
    assert deadlocks(interlock_url) == 0


@pytest.mark.exhaustive
def test_without_the_unique_index_and_the_lock_several_get_it(interlock_url: str) -> None:
    execute(interlock_url, "DROP INDEX interlock.claim_held")
    rewrite(interlock_url, "claim_one_v1", "AND interlock.claim_lock_v1(claim_scope, claim_name)", "")
    rewrite(interlock_url, "claim_one_v1", "ON CONFLICT (scope, name) WHERE released_at IS NULL DO NOTHING", "")
    with pytest.raises((AssertionError, ValueError)):
        check_results(interlock_url, claim_all_at_once(interlock_url, 14))
