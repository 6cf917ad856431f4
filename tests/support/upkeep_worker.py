"""A replica's upkeep as a process of its own: python -m support.upkeep_worker URL

Its driver records the observing process in the table `looking`, and continues once the lock `HOLD` is free.
"""

import asyncio
import os
import sys
from collections.abc import Mapping

import psycopg

from interlock.aggregate.transactions import Transactions
from interlock.coordination.root import AsyncInterlock
from interlock.dns import NoDns
from interlock.instances.context import InstanceContext
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Observation
from interlock.instances.orchestrations import InstanceLifecycle
from interlock.instances.upkeep.schedule import Upkeep, UpkeepSchedule
from support.paper_driver import PaperDriver

TABLES = "CREATE TABLE looking (pid integer PRIMARY KEY)"
HOLD = "SELECT pg_advisory_lock(4711, 1)"
_ENTER = "INSERT INTO looking (pid) VALUES (%s) ON CONFLICT DO NOTHING"
_WAIT = "SELECT pg_advisory_lock_shared(4711, 1)"


class SlowDriver(PaperDriver):
    async def ids(self) -> Mapping[str, str]:
        async with await psycopg.AsyncConnection.connect(self._url(), autocommit=True) as connection:
            await connection.execute(_ENTER, [os.getpid()])
            await connection.execute(_WAIT)
        return await super().ids()

    async def observe(self, id: str) -> Observation:  # noqa: A002
        return Observation("running" if id in await super().ids() else "absent")


def _nobody() -> LocalDriver:
    raise AssertionError("nothing is connected to")


async def main(url: str) -> None:
    context = InstanceContext(
        Transactions(url, "instances"), "interlock", {"paper": SlowDriver(lambda: url, _nobody)}, NoDns()
    )
    schedule = UpkeepSchedule(drift_every=0.2, confirm_after=0.05, watchers_every=60, history_every=60, ttl=3)
    async with AsyncInterlock(url) as locks, Upkeep(InstanceLifecycle(context), locks, schedule):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
