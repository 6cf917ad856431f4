"""Many replicas start at once: one migrates, all come up."""

import shlex
from contextlib import ExitStack
from pathlib import Path

from support.gates import waiters
from support.migrations import holding_back, psql, wait_for_go
from support.postgres import execute
from support.programs import INTERLOCK, started
from support.waiting import eventually

# Fails when a second replica runs it, and is slow enough for the others to arrive meanwhile.
MIGRATION = "CREATE TABLE shop (id int); SELECT pg_sleep(1)"


def test_of_eight_replicas_on_an_empty_database_one_migrates_and_all_come_up(database_url: str, tmp_path: Path) -> None:
    check = tmp_path / "is_current"
    check.write_text(f"""#!/bin/sh
exec {shlex.join(psql(database_url, "SELECT 1 / count(*) FROM pg_class WHERE relname = 'shop'"))} >/dev/null 2>&1
""")
    check.chmod(0o755)
    with ExitStack() as stack:
        replicas = [
            stack.enter_context(
                started("gate", "run", "--check", str(check), "--", *psql(database_url, MIGRATION), url=database_url)
            )
            for _ in range(8)
        ]
        ends = [replica.end() for replica in replicas]
    assert [status for status, _, _ in ends] == [0] * 8, [error for _, _, error in ends]
    assert execute(database_url, "SELECT count(*) FROM interlock.gate_run") == [(1,)]
    assert execute(database_url, "SELECT fence, outcome FROM interlock.gate_run") == [(1, "done")]


def test_create_index_concurrently_is_not_blocked_by_five_waiters(interlock_url: str) -> None:
    execute(interlock_url, "CREATE TABLE shop AS SELECT generate_series(1, 1000) AS id")
    with ExitStack() as stack:
        go_on = stack.enter_context(holding_back(interlock_url))
        build = psql(interlock_url, "CREATE INDEX CONCURRENTLY shop_id ON shop (id)")
        script = f"{wait_for_go(interlock_url)} && {shlex.join(build)}"
        first = stack.enter_context(started("gate", "run", "--", "bash", "-c", script, url=interlock_url))
        eventually(lambda: execute(interlock_url, "SELECT 1 FROM interlock.gate_run WHERE ended_at IS NULL"))
        others = [stack.enter_context(started("gate", "run", "--", "true", url=interlock_url)) for _ in range(5)]
        eventually(lambda: waiters(interlock_url) == 5)
        go_on()
        status, _, error = first.end()
        assert status == 0, error
        assert [other.end()[0] for other in others] == [0] * 5
    assert execute(interlock_url, "SELECT indisvalid FROM pg_index WHERE indexrelid = 'shop_id'::regclass") == [(True,)]


def test_waiters_and_status_show_the_progress_of_the_migration(interlock_url: str) -> None:
    with holding_back(interlock_url) as go_on:
        script = f"{INTERLOCK} gate report 'rewriting orders' && {wait_for_go(interlock_url)}"
        with started("gate", "run", "--version", "7", "--", "bash", "-c", script, url=interlock_url) as first:
            eventually(lambda: execute(interlock_url, "SELECT 1 FROM interlock.gate_run WHERE step IS NOT NULL"))
            with started("gate", "run", "--timeout", "0", "--", "true", url=interlock_url) as second:
                status, _, error = second.end()
            go_on()
            assert first.end()[0] == 0
    assert status == 75
    assert "at 'rewriting orders'" in error
    assert "version=7" in error
