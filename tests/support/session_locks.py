"""Session locks for tests, and their state in the database."""

from collections.abc import Callable
from urllib.parse import urlsplit

from interlock.coordination.session_lock.lock import AsyncSessionLock
from interlock.coordination.session_lock.queue import Connect
from interlock.stores.postgres import AdvisoryKey, Session, connect
from support.postgres import execute

NAME = "feeds"
QUICK = 2.0
"""The shortest ttl that is allowed."""

_WITH_KEY = """
SELECT pid FROM pg_locks
 WHERE locktype = 'advisory' AND granted AND objsubid = 2
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND classid::bigint = (%s::bigint & 4294967295) AND objid::bigint = (%s::bigint & 4294967295)
"""
_OURS = "datname = current_database() AND application_name LIKE 'interlock session lock %%'"


def connecting_to(url: str) -> Connect:
    async def open_session() -> Session:
        return await connect(url, application_name="test")

    return open_session


def locks_at(url: str) -> Callable[..., AsyncSessionLock]:
    """A factory of session locks, as in the root object: all its locks use the same URL."""
    way = connecting_to(url)

    def make(name: str = NAME, *, ttl: float = 10.0, schema: str = "interlock") -> AsyncSessionLock:
        return AsyncSessionLock(way, name, ttl=ttl, schema=schema)

    return make


def lock_key(name: str = NAME) -> AdvisoryKey:
    return AdvisoryKey.of("interlock session lock", "interlock", name)


def line_key(name: str = NAME) -> AdvisoryKey:
    return AdvisoryKey.of("interlock session lock line", "interlock", name)


def holder(url: str, name: str = NAME) -> int | None:
    """The id of the server process that holds the lock."""
    pids = [pid for (pid,) in execute(url, _WITH_KEY, *lock_key(name))]
    assert len(pids) < 2
    return pids[0] if pids else None


def in_line(url: str, name: str = NAME) -> list[int]:
    """The ids of the server processes that wait for the lock, in no particular order."""
    return [pid for (pid,) in execute(url, _WITH_KEY, *line_key(name))]


def sessions(url: str) -> set[int]:
    """The ids of all server processes of session locks."""
    return {pid for (pid,) in execute(url, f"SELECT pid FROM pg_stat_activity WHERE {_OURS}")}


def end(url: str, pid: int) -> None:
    execute(url, "SELECT pg_terminate_backend(%s, 5000)", pid)


def next_step_of(url: str, pid: int) -> object:
    """The time at which the waiter's current step began. It changes with each step."""
    return execute(url, "SELECT query_start FROM pg_stat_activity WHERE pid = %s", pid)[0][0]


def is_midway(url: str, pid: int) -> bool:
    """True if the waiter is in the middle of a step."""
    since = "clock_timestamp() - query_start BETWEEN interval '150 ms' AND interval '250 ms'"
    return bool(execute(url, f"SELECT 1 FROM pg_stat_activity WHERE pid = %s AND state = 'active' AND {since}", pid))


def database_of(url: str) -> str:
    return urlsplit(url).path.lstrip("/")
