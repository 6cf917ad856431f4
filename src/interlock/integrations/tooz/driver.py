"""The coordinator: tooz's calls on one `Interlock`.

A member says by `heartbeat()` that its application lives. Who does not say so for `timeout` seconds has left its groups
and leads no more, as with every driver of tooz's that goes by time; leases of a process that was killed end then too.
Locks are not given up under their holder: they are renewed as long as its process lives.
"""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import tooz
from tooz import utils
from tooz.coordination import (
    Capabilities,
    Characteristics,
    CoordAsyncResult,
    CoordinationDriverCachedRunWatchers,
    CoordinatorResult,
    EventCallback,
    LeaderElected,
)

from interlock.clock import boottime
from interlock.coordination.lease.times import LeaseTiming
from interlock.coordination.sync.root import Interlock
from interlock.integrations.tooz import lease_names
from interlock.integrations.tooz.errors import translated
from interlock.integrations.tooz.groups import Groups, Info
from interlock.integrations.tooz.leaders import Leading
from interlock.integrations.tooz.locks import LeaseLock
from interlock.logs import events

log = events(__name__)

T = TypeVar("T")

_TIMEOUT = 30.0


class InterlockDriver(CoordinationDriverCachedRunWatchers):
    """What follows ``interlock+`` in the URL is Interlock's own. `timeout` is the ttl of everything that is
    held; `readers` is by how many locks can be shared."""

    CHARACTERISTICS: tuple[Characteristics, ...] = (
        Characteristics.DISTRIBUTED_ACROSS_THREADS,
        Characteristics.DISTRIBUTED_ACROSS_PROCESSES,
    )

    def __init__(self, member_id: bytes, parsed_url: Any, options: dict[str, Any]) -> None:
        super().__init__(lease_names.as_bytes(member_id), parsed_url, options)
        given = utils.collapse(options)
        with translated():
            self._timeout = _checked_ttl(given.pop("timeout", _TIMEOUT))
            self._readers = _checked_readers(given.pop("readers", None))
            self.locks = Interlock(_own_url(parsed_url, given), replica=lease_names.quoted(member_id))
        self._executor: ThreadPoolExecutor
        self._groups: Groups
        self._leading: Leading
        self._watching: asyncio.Task[None]
        self._heard_at = 0.0

    def create_group(self, group_id: bytes) -> CoordAsyncResult[None]:
        return self._later(lambda: self._groups.create(lease_names.as_bytes(group_id)))

    def get_groups(self) -> CoordAsyncResult[list[bytes]]:
        return self._later(lambda: self._groups.names())

    def delete_group(self, group_id: bytes) -> CoordAsyncResult[None]:
        return self._later(lambda: self._groups.delete(lease_names.as_bytes(group_id)))

    def join_group(self, group_id: bytes, capabilities: Capabilities | None = None) -> CoordAsyncResult[None]:
        async def join() -> None:
            self.heartbeat()
            await self._groups.join(lease_names.as_bytes(group_id), capabilities)
            self._joined_groups.add(group_id)

        return self._later(join)

    def leave_group(self, group_id: bytes) -> CoordAsyncResult[None]:
        async def leave() -> None:
            group = lease_names.as_bytes(group_id)
            self._joined_groups.discard(group_id)
            if not await self._groups.leave(group):
                await self._take_away(lease_names.member(group, self._member_id))

        return self._later(leave)

    def get_members(self, group_id: bytes) -> CoordAsyncResult[set[bytes]]:
        async def look() -> set[bytes]:
            return set(await self._groups.members(lease_names.as_bytes(group_id)))

        return self._later(look)

    def get_member_capabilities(self, group_id: bytes, member_id: bytes) -> CoordAsyncResult[Capabilities | None]:
        async def look() -> Capabilities | None:
            return (await self._member(group_id, member_id)).capabilities

        return self._later(look)

    def get_members_with_capabilities(self, group_id: bytes) -> CoordAsyncResult[dict[bytes, Capabilities | None]]:
        async def look() -> dict[bytes, Capabilities | None]:
            infos = await self._groups.members(lease_names.as_bytes(group_id))
            return {member_id: info.capabilities for member_id, info in infos.items()}

        return self._later(look)

    def get_member_info(self, group_id: bytes, member_id: bytes) -> CoordAsyncResult[dict[str, Any]]:
        async def look() -> dict[str, Any]:
            info = await self._member(group_id, member_id)
            return {"capabilities": info.capabilities, "created_at": info.joined_at, "updated_at": info.updated_at}

        return self._later(look)

    def update_capabilities(self, group_id: bytes, capabilities: Capabilities) -> CoordAsyncResult[None]:
        return self._later(lambda: self._groups.update(lease_names.as_bytes(group_id), capabilities))

    def run_watchers(self, timeout: float | None = None) -> list[Any]:
        told = super().run_watchers(timeout)
        self.run_elect_coordinator()
        return told

    def run_elect_coordinator(self) -> None:
        for group_id, hooks in list(self._hooks_elected_leader.items()):
            if hooks and self._elected(lease_names.as_bytes(group_id)):
                hooks.run(LeaderElected(group_id, self._member_id))

    def unwatch_elected_as_leader(self, group_id: bytes, callback: EventCallback[LeaderElected]) -> None:
        """Who wants to hear of it no more does not lead either."""
        super().unwatch_elected_as_leader(group_id, callback)
        if group_id not in self._hooks_elected_leader:
            self.stand_down_group_leader(group_id)

    def stand_down_group_leader(self, group_id: bytes) -> bool:
        return self._now(lambda: self._leading.stand_down(lease_names.as_bytes(group_id)))

    def get_leader(self, group_id: bytes) -> CoordAsyncResult[bytes]:
        async def look() -> Any:  # tooz's drivers say None, although its types do not
            return await self._leading.leader(lease_names.as_bytes(group_id))

        return self._later(look)

    def get_lock(self, name: bytes) -> LeaseLock:
        return LeaseLock(self, name, self._timeout, self._readers)

    def heartbeat(self) -> float:
        """The answer is by when the next one is due; tooz's own heart beats twice as often."""
        self._heard_at = boottime()
        return self._timeout / 2

    def take_away(self, lease: str) -> bool:
        """From whoever holds it."""
        return self._now(lambda: self._take_away(lease))

    def _start(self) -> None:
        with translated():
            self.locks.__enter__()  # which closes what it opened, if the database cannot serve
            self.locks.run(self._begin())
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="interlock tooz")

    def _stop(self) -> None:
        """tooz has left our groups before that."""
        self._executor.shutdown()
        with translated():
            self.locks.run(self._end())
            self.locks.close()

    async def _begin(self) -> None:
        engine = self.locks.engine()
        self._groups = Groups(engine, self._member_id, self._timeout)
        self._leading = Leading(engine, self._member_id, self._timeout)
        self.heartbeat()
        self._watching = asyncio.create_task(self._watch())

    async def _end(self) -> None:
        self._watching.cancel()
        self._leading.drop_all()

    async def _watch(self) -> None:
        """Until all is closed: who is not heard of has left."""
        while True:
            left = self._heard_at + self._timeout - boottime()
            if left <= 0 and self._groups.drop_all() | self._leading.drop_all():
                log.warning("tooz.no_heartbeat", extra={"member": lease_names.quoted(self._member_id)})
            await asyncio.sleep(left if left > 0 else self._timeout / 4)

    def _elected(self, group: bytes) -> bool:
        return self._now(lambda: self._leading.elected(group))

    async def _member(self, group_id: bytes, member_id: bytes) -> Info:
        return await self._groups.member(lease_names.as_bytes(group_id), lease_names.as_bytes(member_id))

    async def _take_away(self, lease: str) -> bool:
        """At once, though its holder may be at work: tooz lets anybody do that, Interlock only who may."""
        by, reason = lease_names.quoted(self._member_id), "asked for through tooz"
        async with self.locks.engine().database.operator() as operator:
            return await operator.break_lease(lease, immediate=True, terminate=False, reason=reason, by=by) is not None

    def _now(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._require_started()
        with translated():
            return self.locks.run(work())

    def _later(self, work: Callable[[], Coroutine[Any, Any, T]]) -> CoordAsyncResult[T]:
        """One after the other, in the order of the calls."""
        self._require_started()
        future = self._executor.submit(lambda: self.locks.run(work()))
        return CoordinatorResult(future, failure_translator=translated)

    def _require_started(self) -> None:
        if not self.is_started:
            raise tooz.ToozError("This coordinator is not started: call start() first.")


class PostgresDriver(InterlockDriver):
    """``interlock+postgresql://user:password@host/database``"""

    CHARACTERISTICS = (*InterlockDriver.CHARACTERISTICS, Characteristics.DISTRIBUTED_ACROSS_HOSTS)


class SqliteDriver(InterlockDriver):
    """``interlock+sqlite:////directory/file.db``: the processes of one machine."""


def _own_url(parsed_url: Any, options: dict[str, Any]) -> str:
    query = urlencode(options, quote_via=quote)
    scheme = parsed_url.scheme.removeprefix("interlock+")
    return f"{scheme}://{parsed_url.netloc}{parsed_url.path}" + (f"?{query}" if query else "")


def _checked_ttl(given: Any) -> float:
    try:
        ttl = float(given)
    except (TypeError, ValueError):
        raise tooz.ToozError(f"timeout={given!r}: it has to be a number of seconds.") from None
    return LeaseTiming.of(ttl).ttl


def _checked_readers(given: Any) -> int | None:
    try:
        return None if given is None else int(given)
    except (TypeError, ValueError):
        raise tooz.ToozError(f"readers={given!r}: it has to be a whole number.") from None
