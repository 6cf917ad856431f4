"""A process that writes new records deletes old ones."""

from interlock import AsyncInterlock
from interlock.coordination.primitives.once import Retention
from support.lease_engine import until
from support.postgres import execute

KEYS = "SELECT key FROM interlock.record ORDER BY key"
OLD = """
INSERT INTO interlock.record SELECT 'bill:' || n, 1, '1', now() - interval '2 h' FROM generate_series(1, 2500) n
"""
OTHERS = "INSERT INTO interlock.record VALUES ('bill:young', 1, '1', now()), ('tick', 1, '1', 'epoch')"


async def test_a_new_record_deletes_the_old_ones(interlock_url: str) -> None:
    execute(interlock_url, OLD)
    execute(interlock_url, OTHERS)
    async with AsyncInterlock(interlock_url) as locks:

        async def bill(grant: object) -> int:
            return 7

        once = locks.once_settings("bill:new", 30, None, Retention("bill:", 3600))
        assert await once.run(locks.engine(), object(), None, bill) == 7
        kept = [("bill:new##once",), ("bill:young",), ("tick",)]
        await until(lambda: execute(interlock_url, KEYS) == kept)
