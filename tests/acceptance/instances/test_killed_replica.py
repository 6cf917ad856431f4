"""Two replicas run the maintenance of instances: if one is killed during a drift check, the other takes over."""

import psycopg
import pytest

from support import paper_driver, upkeep_worker
from support.durable_worker import Worker
from support.postgres import execute
from support.waiting import eventually

pytestmark = pytest.mark.exhaustive

WAITING = "SELECT 1 FROM interlock.waiters_v1('interlock:instances:drift')"
FOUND = "SELECT kind, instance FROM interlock.instance_drift"


@pytest.mark.timeout(180)
def test_one_replica_checks_for_drift_and_the_other_takes_over_when_it_is_killed(interlock_url: str) -> None:
    execute(interlock_url, paper_driver.TABLES + upkeep_worker.TABLES)
    execute(interlock_url, "INSERT INTO paper (id, name, state) VALUES ('unheard-of', 'stray', 'running')")
    held = psycopg.connect(interlock_url, autocommit=True)
    held.execute(upkeep_worker.HOLD)
    team = {worker.process.pid: worker for worker in (new(interlock_url), new(interlock_url))}
    try:
        eventually(lambda: looking(interlock_url) and execute(interlock_url, WAITING))
        [first] = looking(interlock_url)
        team[first].kill()
        [second] = eventually(lambda: looking(interlock_url) - {first})
        assert second in team
        assert execute(interlock_url, FOUND) == []
        held.close()
        eventually(lambda: execute(interlock_url, FOUND) == [("orphan", "unheard-of")])
    finally:
        held.close()
        for worker in team.values():
            worker.end()


def new(url: str) -> Worker:
    return Worker(url, "", "support.upkeep_worker")


def looking(url: str) -> set[int]:
    return {pid for (pid,) in execute(url, "SELECT pid FROM looking")}
