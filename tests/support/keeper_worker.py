"""A replica of the keepers as a process of its own: python -m support.keeper_worker URL

Its driver says whose process looks, in the table `looking`, and goes on when it may.
"""

import asyncio
import os
import sys
from collections.abc import Mapping

import psycopg

from interlock.coordination.root import AsyncInterlock
from interlock.instances.database import Database
from interlock.instances.dns.none import NoDns
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.keeping.keepers import Habits, Keepers
from interlock.instances.orchestrations import Lifecycle
from interlock.instances.surroundings import Surroundings
from support.paper_driver import PaperDriver

TABLES = "CREATE TABLE looking (pid integer, may boolean DEFAULT false)"
_ENTER = "INSERT INTO looking (pid) SELECT %s WHERE NOT EXISTS (SELECT FROM looking WHERE pid = %s)"
_MAY = "SELECT may FROM looking WHERE pid = %s"


class SlowDriver(PaperDriver):
    async def ids(self) -> Mapping[str, str]:
        async with await psycopg.AsyncConnection.connect(self._url(), autocommit=True) as connection:
            await connection.execute(_ENTER, [os.getpid(), os.getpid()])
            while not (row := await (await connection.execute(_MAY, [os.getpid()])).fetchone()) or not row[0]:
                await asyncio.sleep(0.05)
        return await super().ids()


def _nobody() -> LocalDriver:
    raise AssertionError("nothing is connected to")


async def main(url: str) -> None:
    here = Surroundings(Database(url), "interlock", {"paper": SlowDriver(lambda: url, _nobody)}, NoDns())
    habits = Habits(drift_every=0.2, moment=0.05, watchers_every=60, history_every=60, ttl=3)
    async with AsyncInterlock(url) as locks, Keepers(Lifecycle(here), locks, habits):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
