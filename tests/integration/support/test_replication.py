"""The primary and its standby behave as the tests of failover rely on them."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from support.postgres import execute
from support.replication import primary_and_standby
from support.waiting import eventually

CANCEL_WAITING = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
either_kind = pytest.mark.parametrize("synchronous", [False, True], ids=["asynchronous", "synchronous"])


def numbers(url: str) -> list[int]:
    return [number for (number,) in execute(url, "SELECT number FROM note ORDER BY number")]


def insert(url: str, number: int) -> None:
    execute(url, "INSERT INTO note VALUES (%s)", number)


@pytest.mark.exhaustive(beyond=1)
@either_kind
def test_replicated_commits_exist_after_a_failover_and_the_client_finds_the_new_primary(synchronous: bool) -> None:
    with primary_and_standby(synchronous=synchronous) as pair:
        execute(pair.url, "CREATE TABLE note (number int)")
        insert(pair.url, 1)
        pair.wait_caught_up()
        assert numbers(pair.standby_url) == [1]
        pair.stop_primary()
        pair.promote()
        insert(pair.url, 2)
        assert numbers(pair.standby_url) == [1, 2]


def test_an_acknowledged_commit_after_the_freeze_is_lost_with_an_asynchronous_standby() -> None:
    with primary_and_standby(synchronous=False) as pair:
        execute(pair.url, "CREATE TABLE note (number int)")
        insert(pair.url, 1)
        pair.wait_caught_up()
        pair.freeze()
        insert(pair.url, 2)
        assert numbers(pair.primary_url) == [1, 2]
        pair.stop_primary()
        pair.promote()
        assert numbers(pair.url) == [1]


def test_a_commit_waits_for_a_frozen_synchronous_standby_and_may_be_lost_if_cancelled() -> None:
    with primary_and_standby(synchronous=True) as pair:
        execute(pair.url, "CREATE TABLE note (number int)")
        insert(pair.url, 1)
        pair.freeze()
        with ThreadPoolExecutor() as threads:
            warnings = threads.submit(warnings_of_insert, pair.primary_url, 2)
            eventually(lambda: execute(pair.primary_url, CANCEL_WAITING) == [(True,)])
            assert warnings.result() == ["canceling wait for synchronous replication due to user request"]
        assert numbers(pair.primary_url) == [1, 2]
        pair.stop_primary()
        pair.promote()
        assert numbers(pair.url) == [1]


def warnings_of_insert(url: str, number: int) -> list[str | None]:
    warnings: list[str | None] = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: warnings.append(notice.message_primary))
        connection.execute("INSERT INTO note VALUES (%s)", [number])
    return warnings
