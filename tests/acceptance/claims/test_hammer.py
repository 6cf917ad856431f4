"""Random claims from several processes on few names: their results are replayed and checked."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from support.claim_hammer import Transaction, read
from support.claim_histories import faults, steps_that_count
from support.postgres import execute
from support.programs import environment
from support.protocol import rewrite

PROCESSES = 4
TRANSACTIONS = 250
OWNED = "SELECT name, count(*) FROM interlock.claim WHERE released_at IS NULL GROUP BY name HAVING count(*) > 1"


def hammered(url: str, directory: Path, transactions: int = TRANSACTIONS, round_: int = 0) -> list[Transaction]:
    tests = str(Path(__file__).parents[2])
    numbers = range(round_ * PROCESSES, (round_ + 1) * PROCESSES)
    paths = [directory / f"{number}.jsonl" for number in numbers]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "support.claim_hammer", url, str(path), str(number), str(transactions)],
            env=environment(PYTHONPATH=":".join([*sys.path, tests])),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, path in zip(numbers, paths, strict=True)
    ]
    try:
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        ends = [process.communicate()[1] for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert "".join(ends) == ""
    return [transaction for path in paths for transaction in read(path)]


@pytest.mark.exhaustive
@pytest.mark.timeout(120)
def test_no_name_has_two_owners_and_every_loser_gets_the_true_one(
    interlock_url: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    transactions = hammered(interlock_url, tmp_path)
    assert faults(transactions) == []
    results = Counter(answer["kind"] for one in transactions for step in one.steps for answer in step.answers)
    assert set(results) >= {"Claimed", "Taken", "Pending", "Released", "NotClaimed", "Free"}, "all of it was tried"
    assert execute(interlock_url, OWNED) == []
    record_property("figure", f"claims: {len(transactions)} transactions at random, {dict(results)}, no fault")
    agrees_with_the_table(interlock_url, transactions)


def agrees_with_the_table(url: str, transactions: list[Transaction]) -> None:
    """Each committed claim has its row, and there is no other row, except those of transfers."""
    answers = [(step.kind, answer) for _, step in steps_that_count(transactions) for answer in step.answers]
    claimed = {answer["id"] for _, answer in answers if answer["kind"] == "Claimed" and not answer["replay"]}
    released = {
        answer["id"]
        for kind, answer in answers
        if answer["kind"] == "Released" and not answer["replay"] and kind != "claim"
    }
    rows = execute(url, "SELECT id, released_at IS NOT NULL FROM interlock.claim")
    passed_on = execute(url, "SELECT count(*) FROM interlock.claim WHERE passed_to IS NOT NULL")[0][0]
    assert claimed <= {number for number, _ in rows}
    assert len(rows) == len(claimed) + passed_on
    assert {number for number, is_released in rows if is_released} == released


def no_index_and_no_lock(url: str) -> None:
    execute(url, "DROP INDEX interlock.claim_held")
    rewrite(url, "claim_one_v1", "AND interlock.claim_lock_v1(claim_scope, claim_name)", "")
    rewrite(url, "claim_v1", "AND NOT interlock.claim_lock_v1(claim_scope, one)", "AND false")
    for function in ("claim_one_v1", "claim_v1"):
        rewrite(url, function, "ON CONFLICT (scope, name) WHERE released_at IS NULL DO NOTHING", "")


def a_lock_with_a_wait(url: str) -> None:
    waits = "SELECT true FROM pg_catalog.pg_advisory_xact_lock"
    rewrite(url, "claim_lock_v1", "SELECT pg_catalog.pg_try_advisory_xact_lock", waits)


def a_former_owner(url: str) -> None:
    """A broken variant: the first owner ever is returned as the owner."""
    first = (
        "(SELECT f.owner FROM interlock.claim f WHERE f.scope = claim_scope AND f.name = w.name ORDER BY f.id LIMIT 1)"
    )
    rewrite(url, "claim_v1", "coalesce(c.owner, p.owner)", first)


def a_repetition_that_keeps_nothing(url: str) -> None:
    rewrite(url, "claim_v1", "FOR SHARE SKIP LOCKED", "")


BROKEN = [
    (no_index_and_no_lock, "while it was"),
    (a_lock_with_a_wait, "40P01"),
    (a_former_owner, "and it was not"),
    (a_repetition_that_keeps_nothing, "relied"),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("broken", "found"), BROKEN, ids=[broken.__name__ for broken, _ in BROKEN])
@pytest.mark.timeout(300)
def test_a_broken_variant_is_detected(
    broken: Callable[[str], None], found: str, interlock_url: str, tmp_path: Path
) -> None:
    """After some rounds: two calls have to meet by chance. Each round is checked with the earlier ones."""
    broken(interlock_url)
    transactions: list[Transaction] = []
    for round_ in range(20):
        transactions += hammered(interlock_url, tmp_path, 100, round_)
        if any(found in fault for fault in faults(transactions)):
            return
    raise AssertionError(f"{broken.__name__} was not found in {len(transactions)} transactions")
