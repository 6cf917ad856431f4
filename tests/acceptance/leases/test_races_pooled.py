"""Processes race for leases through PgBouncer in transaction mode, without prepared statements and LISTEN."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import psycopg
import pytest

from support.crews import crew
from support.pooler import pooled
from support.postgres import execute
from support.protocol import rewrite

pytestmark = pytest.mark.exhaustive

_LISTENING = """
    SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'interlock listen %'
"""


_GATE = 1229737101
_AT_THE_GATE = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted"


@contextmanager
def gate(url: str, function: str, who: str) -> Iterator[Callable[[], object]]:
    """The worker stays in that function until the returned function is called."""
    wait = (
        f"IF current_setting('application_name') = '{who}' THEN PERFORM set_config('lock_timeout', '0', true);"
        f" PERFORM pg_advisory_xact_lock_shared({_GATE}); END IF;\nEND\n$function$"
    )
    with psycopg.connect(url, autocommit=True) as keeper:
        keeper.execute("SELECT pg_advisory_lock(%s)", [_GATE])
        rewrite(url, function, "END\n$function$", wait)
        yield lambda: keeper.execute("SELECT pg_advisory_unlock_all()")


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("purpose", "function"), [("acquire", "durably_v1"), ("heartbeat", "durably_v1"), ("acquire", "release_v1")]
)
def test_a_suspension_before_the_commit_does_not_block_the_lease(
    interlock_url: str, tmp_path: Path, purpose: str, function: str
) -> None:
    """The row is locked there, so no other process could get the lease meanwhile."""
    with pooled(interlock_url, "transaction") as through, crew(interlock_url, tmp_path, ["one"]) as racers:
        (stopped,) = racers.hire(1, url=through, linger=0.4)
        (other,) = racers.hire(1, url=through)
        racers.go_on(2)
        with gate(interlock_url, function, f"interlock {purpose} {stopped}") as open_gate:
            racers.wait_for(lambda: execute(interlock_url, _AT_THE_GATE, _GATE))
            racers.members[stopped].send(SIGSTOP)
            open_gate()
            racers.go_on(5, only=[other])
        racers.members[stopped].send(SIGCONT)
        racers.go_on(2)
        racers.dismiss()
        assert racers.judge()[0] == []


@pytest.mark.timeout(180)
def test_leases_are_held_by_one_at_a_time_through_a_pooler_too(
    interlock_url: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with (
        pooled(interlock_url, "transaction", pool_size=6, in_turn=True) as through,
        crew(interlock_url, tmp_path, ["one", "two"]) as racers,
    ):
        racers.hire(2, url=through, tasks=2)
        racers.hire(1, url=through, tasks=2, brisk=True)
        racers.go_on(10)
        racers.stop_a_holder_until_it_has_a_successor()
        racers.go_on(5)
        racers.replace(racers.kill_a_holder().worker)
        racers.go_on(5)
        assert execute(interlock_url, _LISTENING) == []
        racers.dismiss()
        found, happened = racers.judge()
    assert found == []
    record_property("figure", f"races through a pooler, judged without a violation: {dict(happened)}")
    assert happened["acknowledged"] > 50
