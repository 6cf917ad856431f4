"""Disturbances that reveal broken leases. Each is an endless iterator that causes its disturbance once per `next`.

Correct leases withstand them; those of `support.broken_leases` show violations that the check finds.
"""

from collections.abc import Callable, Iterator
from signal import SIGCONT

from interlock.embedded import Cluster
from support.crashes import crash
from support.crews import Crew
from support.postgres import execute
from support.proxy import cable_to
from support.sql_leases import row

Trouble = Callable[[Crew], Iterator[None]]
Crash = Callable[[Crew, Cluster], Iterator[None]]

_HELD = "SELECT 1 FROM interlock.lease WHERE name = %s AND grant_id IS NOT NULL AND expires_at > now()"
_OUTLASTED = """
    SELECT 1 FROM interlock.lease WHERE grant_id IS NOT NULL AND renewed_at > acquired_at + ttl * interval '1 second'
"""


def nothing_happens(crew: Crew) -> Iterator[None]:
    crew.hire(3)
    while True:
        crew.go_on(5)
        yield


def a_holder_stands_still(crew: Crew) -> Iterator[None]:
    """A holder is suspended inside its guarded transaction for longer than the ttl; then it continues."""
    crew.hire(3, dwell=0.3)
    crew.go_on(1)
    while True:
        crew.stop_a_holder_until_it_has_a_successor()
        crew.go_on(1)
        yield


def a_guard_outlasts_the_ttl(crew: Crew) -> Iterator[None]:
    """A guarded transaction is longer than the ttl. No holder has a reason to lose its lease."""
    crew.hire(2, ttl=4.0, dwell=4.5)
    while True:
        crew.go_on(1)
        yield


def the_answer_to_a_release_is_lost(crew: Crew) -> Iterator[None]:
    """The release is sent again, when the same process has acquired the lease again."""
    (name,) = crew.names
    with cable_to(crew.url) as (cable, through):
        crew.hire(url=through, ledger_url=crew.url, linger=0.6, variant="always acquiring")
        while True:
            crew.go_on(2)  # twice, so that there is an open connection for the release
            cable.swallow_replies()
            crew.wait_for(lambda: not execute(crew.url, _HELD, name))
            cable.restore()
            crew.go_on(2)
            yield


def answers_are_slow(crew: Crew, variant: str = "") -> Iterator[None]:
    """Answers are slower than the margin allows; renewals are too late as well."""
    with cable_to(crew.url) as (cable, through):
        crew.hire(url=through, ledger_url=crew.url, linger=2.0, variant=variant)
        crew.hire(2)
        crew.go_on(1)
        while True:
            cable.delay = 0.3
            crew.go_on(1)
            cable.delay = 0.0
            yield


def answers_are_slow_to_one_who_trusts_from_receipt(crew: Crew) -> Iterator[None]:
    return answers_are_slow(crew, "trust from receipt")


def a_crash_after_renewals(crew: Crew, server: Cluster) -> Iterator[None]:
    """A crash when the grant would have expired without renewals. Its holder is suspended, so it is not notified."""
    (name,) = crew.names
    crew.hire(3, ttl=3.0, linger=4.5)
    while True:
        crew.wait_for(lambda: execute(crew.url, _OUTLASTED))
        before = row(crew.url, name)
        crew.wait_for(lambda before=before: row(crew.url, name) != before)  # type: ignore[misc]
        _crash_under_a_holder(crew, server)
        yield


def a_crash_after_a_grant(crew: Crew, server: Cluster) -> Iterator[None]:
    """A crash before the holder has written anything, which would have synced the server's log."""
    crew.hire(3, ttl=3.0, dwell=0.5)
    while True:
        crew.go_on(1)
        _crash_under_a_holder(crew, server)
        yield


def _crash_under_a_holder(crew: Crew, server: Cluster) -> None:
    held = crew.stop_a_holder()
    crash(server)
    crew.wait_for(lambda: row(crew.url, held.name).token > held.token)
    held.worker.send(SIGCONT)
