"""The settings of the session that holds a gate, regardless of the role's own settings."""

from collections.abc import AsyncIterator

import pytest

from interlock.gate import Timing
from interlock.gate.lock_session import LockSession
from support.postgres import execute

TIMING = Timing(ttl=12, check_interval=0.5)


@pytest.fixture
async def lock(interlock_url: str) -> AsyncIterator[LockSession]:
    database = interlock_url.rpartition("/")[2]
    for setting in ("idle_session_timeout", "statement_timeout", "lock_timeout"):
        execute(interlock_url, f"ALTER DATABASE {database} SET {setting} = '5s'")
    lock = await LockSession.open(interlock_url, app="shop", schema=None, timing=TIMING)
    yield lock
    await lock.close()


async def shown(lock: LockSession, setting: str) -> str:
    return str(await lock.session.fetchval("SELECT current_setting($1)", setting))


async def test_the_server_ends_it_when_it_is_silent_from_the_moment_it_holds_the_lock(
    lock: LockSession,
) -> None:
    before = await shown(lock, "idle_session_timeout")
    assert await lock.try_acquire()
    assert [before, await shown(lock, "idle_session_timeout")] == ["0", "12s"]


async def test_a_dead_network_is_noticed_within_the_ttl(lock: LockSession) -> None:
    settings = {name: await shown(lock, name) for name in ("tcp_user_timeout", "tcp_keepalives_idle")}
    assert settings == {"tcp_user_timeout": "12000", "tcp_keepalives_idle": "6"}


async def test_the_roles_own_time_limits_do_not_reach_it(lock: LockSession) -> None:
    assert [await shown(lock, name) for name in ("statement_timeout", "lock_timeout")] == ["0", "500ms"]


async def test_it_is_never_idle_in_a_transaction(lock: LockSession, interlock_url: str) -> None:
    assert await lock.try_acquire()
    await lock.beat()
    state = "SELECT state, xact_start FROM pg_stat_activity WHERE pid = %s"
    assert execute(interlock_url, state, lock.pid) == [("idle", None)]
