"""Processes race for leases under all kinds of faults, and the history is checked.

Two connect to the database directly and two through a cable with faults; one has a clock that is set repeatedly. They
hold a lease for a few milliseconds. Two more repeatedly hold another lease for longer than its ttl. Some do not wait
for their releases, and the process that releases one further lease mostly wants it again at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT

import pytest

from support.crews import Crew, crew
from support.postgres import execute
from support.proxy import Cable, cable_to
from support.waiting import eventually

pytestmark = pytest.mark.exhaustive

NAMES = ["one", "two", "three"]
_TERMINATE = """
    SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
     WHERE datname = current_database() AND application_name LIKE %s AND random() < %s
"""
_CALLS = "SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE funcname LIKE %s"


@dataclass(frozen=True)
class Race:
    crew: Crew
    cable: Cable

    def names(self, *, direct: bool = False, quick: bool = True) -> list[str]:
        """Returns the workers: those with a direct connection, or all; those that hold for long, or briefly."""
        jobs = {name: self.crew.members[name].job for name in self.crew.living}
        mine = {name: job for name, job in jobs.items() if job.url == self.crew.url or not direct}
        return [name for name, job in mine.items() if quick is (job.dwell == 0)]

    def go_on(self) -> None:
        self.crew.go_on(15, only=self.names())
        self.crew.go_on(1, only=self.names(quick=False))

    def terminate(self, kind: str, *, share: float = 1.0) -> None:
        """End sessions of that kind, at least one."""
        eventually(lambda: execute(self.crew.url, _TERMINATE, f"interlock {kind} %", share)[0][0] > 0)


def holders_are_killed(race: Race) -> None:
    for _ in range(3):
        race.crew.replace(race.crew.kill_a_holder().worker)


def holders_are_stopped_for_longer_than_the_ttl(race: Race) -> None:
    for _ in range(3):
        race.crew.stop_a_holder_until_it_has_a_successor(only=race.names())
    race.crew.stop_a_holder_until_it_has_a_successor(only=race.names(quick=False))


def sessions_are_terminated(race: Race) -> None:
    for _ in range(5):
        race.terminate("%", share=0.4)
        race.crew.go_on(2, only=race.names())


def heartbeats_are_terminated(race: Race) -> None:
    for _ in range(3):
        race.terminate("heartbeat")


def listening_sessions_are_dropped(race: Race) -> None:
    for _ in range(5):
        race.terminate("listen")
        race.crew.go_on(2, only=race.names())


def replies_are_swallowed(race: Race) -> None:
    for _ in range(2):
        before = race.cable.swallowed
        race.cable.swallow_replies()
        eventually(lambda before=before: race.cable.swallowed > before)  # type: ignore[misc]
        race.crew.go_on(5, only=race.names(direct=True))
        race.cable.restore()
        race.crew.go_on(2, only=race.names())


def the_cable_is_cut(race: Race) -> None:
    for _ in range(2):
        race.cable.cut()
        race.crew.go_on(10, only=race.names(direct=True))
        race.cable.restore()
        race.crew.go_on(2, only=race.names())


def sessions_are_terminated_while_a_holder_is_suspended(race: Race) -> None:
    held = race.crew.stop_a_holder()
    race.terminate("%")
    held.worker.send(SIGCONT)


FAULTS: list[Callable[[Race], None]] = [
    holders_are_killed,
    holders_are_stopped_for_longer_than_the_ttl,
    sessions_are_terminated,
    heartbeats_are_terminated,
    listening_sessions_are_dropped,
    replies_are_swallowed,
    the_cable_is_cut,
    sessions_are_terminated_while_a_holder_is_suspended,
]


def count_functions(url: str) -> None:
    """Count the calls of each function, by sessions that begin from now on."""
    [[database]] = execute(url, "SELECT current_database()")
    execute(url, f'ALTER DATABASE "{database}" SET track_functions = pl')


@pytest.mark.timeout(300)
def test_no_fault_makes_two_holders_of_one_lease(
    interlock_url: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    count_functions(interlock_url)
    with (
        crew(interlock_url, tmp_path, [*NAMES, "long", "own"]) as racers,
        cable_to(interlock_url) as (cable, through),
    ):
        racers.hire(1, names=NAMES, tasks=2)
        racers.hire(1, names=NAMES, tasks=2, brisk=True)
        racers.hire(1, names=NAMES, variant="wall clock astray")
        racers.hire(2, names=NAMES, tasks=2, url=through)
        racers.hire(2, names=["long"], ttl=0.5, dwell=0.6)
        racers.hire(1, names=["own"], brisk=True, rest=0.002)
        racers.hire(1, names=["own"], brisk=True, rest=0.2, url=through)
        race = Race(racers, cable)
        race.go_on()
        for fault in FAULTS:
            fault(race)
            race.go_on()
        racers.dismiss()
        found, happened = racers.judge()
    assert found == []
    [[handed_on]] = execute(interlock_url, _CALLS, "hand_on%")
    record_property(
        "figure", f"races, judged without a violation: {dict(happened)}, {handed_on} releases to an expected waiter"
    )
    assert happened["granted"] > 1000
    assert handed_on > 10
    assert happened["lost"] > 0
