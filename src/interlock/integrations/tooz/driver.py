"""The coordinator, which carries out tooz's calls with one `Interlock`.

An application reports by `heartbeat()` that it lives. A member without a heartbeat for `timeout` seconds leaves its
groups and its leaderships, as with every time-based driver of tooz; the leases of a killed process end then too. Locks
are not taken from their holders: they are renewed as long as the process lives.
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
from interlock.integrations.tooz.leaders import Leaders
from interlock.integrations.tooz.locks import LeaseLock
from interlock.logs import events

log = events(__name__)

T = TypeVar("T")

_TIMEOUT = 30.0


class InterlockDriver(CoordinationDriverCachedRunWatchers):
    """The part of the URL after ``interlock+`` is the URL for `Interlock`. `timeout` is the ttl of all leases, and
    `readers` is the number of holders that may share a lock."""

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
        self._leaders: Leaders
        self._watch_task: asyncio.Task[None]
        self._heartbeat_at = 0.0

    def create_group(self, group_id: bytes) -> CoordAsyncResult[None]:
        return self._submit(lambda: self._groups.create(lease_names.as_bytes(group_id)))

    def get_groups(self) -> CoordAsyncResult[list[bytes]]:
        return self._submit(lambda: self._groups.names())

    def delete_group(self, group_id: bytes) -> CoordAsyncResult[None]:
        return self._submit(lambda: self._groups.delete(lease_names.as_bytes(group_id)))

    def join_group(self, group_id: bytes, capabilities: Capabilities | None = None) -> CoordAsyncResult[None]:
        async def join() -> None:
            self.heartbeat()
            await self._groups.join(lease_names.as_bytes(group_id), capabilities)
            self._joined_groups.add(group_id)

        return self._submit(join)

    def leave_group(self, group_id: bytes) -> CoordAsyncResult[None]:
        async def leave() -> None:
            group = lease_names.as_bytes(group_id)
            self._joined_groups.discard(group_id)
            if not await self._groups.leave(group):
                await self._take_away(lease_names.member(group, self._member_id))

        return self._submit(leave)

    def get_members(self, group_id: bytes) -> CoordAsyncResult[set[bytes]]:
        async def read() -> set[bytes]:
            return set(await self._groups.members(lease_names.as_bytes(group_id)))

        return self._submit(read)

    def get_member_capabilities(self, group_id: bytes, member_id: bytes) -> CoordAsyncResult[Capabilities | None]:
        async def read() -> Capabilities | None:
            return (await self._member(group_id, member_id)).capabilities

        return self._submit(read)

    def get_members_with_capabilities(self, group_id: bytes) -> CoordAsyncResult[dict[bytes, Capabilities | None]]:
        async def read() -> dict[bytes, Capabilities | None]:
            infos = await self._groups.members(lease_names.as_bytes(group_id))
            return {member_id: info.capabilities for member_id, info in infos.items()}

        return self._submit(read)

    def get_member_info(self, group_id: bytes, member_id: bytes) -> CoordAsyncResult[dict[str, Any]]:
        async def read() -> dict[str, Any]:
            info = await self._member(group_id, member_id)
            return {"capabilities": info.capabilities, "created_at": info.joined_at, "updated_at": info.updated_at}

        return self._submit(read)

    def update_capabilities(self, group_id: bytes, capabilities: Capabilities) -> CoordAsyncResult[None]:
        return self._submit(lambda: self._groups.update(lease_names.as_bytes(group_id), capabilities))

    def run_watchers(self, timeout: float | None = None) -> list[Any]:
        results = super().run_watchers(timeout)
        self.run_elect_coordinator()
        return results

    def run_elect_coordinator(self) -> None:
        for group_id, hooks in list(self._hooks_elected_leader.items()):
            if hooks and self._elected(lease_names.as_bytes(group_id)):
                hooks.run(LeaderElected(group_id, self._member_id))

    def unwatch_elected_as_leader(self, group_id: bytes, callback: EventCallback[LeaderElected]) -> None:
        """Removes the callback. A member without a callback for its election does not lead either."""
        super().unwatch_elected_as_leader(group_id, callback)
        if group_id not in self._hooks_elected_leader:
            self.stand_down_group_leader(group_id)

    def stand_down_group_leader(self, group_id: bytes) -> bool:
        return self._run(lambda: self._leaders.stand_down(lease_names.as_bytes(group_id)))

    def get_leader(self, group_id: bytes) -> CoordAsyncResult[bytes]:
        async def read() -> Any:  # tooz's drivers say None, although its types do not
            return await self._leaders.leader(lease_names.as_bytes(group_id))

        return self._submit(read)

    def get_lock(self, name: bytes) -> LeaseLock:
        return LeaseLock(self, name, self._timeout, self._readers)

    def heartbeat(self) -> float:
        """Returns the seconds within which the next heartbeat is due; tooz's own thread calls twice as often."""
        self._heartbeat_at = boottime()
        return self._timeout / 2

    def take_away(self, lease: str) -> bool:
        """Take the lease away from its holder."""
        return self._run(lambda: self._take_away(lease))

    def _start(self) -> None:
        with translated():
            self.locks.__enter__()  # which closes what it opened, if the database cannot serve
            self.locks.run(self._begin())
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="interlock tooz")

    def _stop(self) -> None:
        """tooz leaves this member's groups before it calls this."""
        self._executor.shutdown()
        with translated():
            self.locks.run(self._end())
            self.locks.close()

    async def _begin(self) -> None:
        engine = self.locks.engine()
        self._groups = Groups(engine, self._member_id, self._timeout)
        self._leaders = Leaders(engine, self._member_id, self._timeout)
        self.heartbeat()
        self._watch_task = asyncio.create_task(self._watch())

    async def _end(self) -> None:
        self._watch_task.cancel()
        self._leaders.drop_all()

    async def _watch(self) -> None:
        """Runs until the coordinator stops. Without a heartbeat in time the member leaves its
        groups and leaderships."""
        while True:
            remaining = self._heartbeat_at + self._timeout - boottime()
            if remaining <= 0 and self._groups.drop_all() | self._leaders.drop_all():
                log.warning("tooz.no_heartbeat", extra={"member": lease_names.quoted(self._member_id)})
            await asyncio.sleep(remaining if remaining > 0 else self._timeout / 4)

    def _elected(self, group: bytes) -> bool:
        return self._run(lambda: self._leaders.elected(group))

    async def _member(self, group_id: bytes, member_id: bytes) -> Info:
        return await self._groups.member(lease_names.as_bytes(group_id), lease_names.as_bytes(member_id))

    async def _take_away(self, lease: str) -> bool:
        """Break the lease at once, while its holder may still work. tooz allows this to every member, Interlock only
        to roles with the permission."""
        by, reason = lease_names.quoted(self._member_id), "requested through tooz"
        async with self.locks.engine().database.operator() as operator:
            return await operator.break_lease(lease, immediate=True, terminate=False, reason=reason, by=by) is not None

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        self._require_started()
        with translated():
            return self.locks.run(work())

    def _submit(self, work: Callable[[], Coroutine[Any, Any, T]]) -> CoordAsyncResult[T]:
        """Run `work` in the coordinator's thread, one call after the other, in the order of the calls."""
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
    """``interlock+sqlite:////directory/file.db``, for the processes of one machine."""


def _own_url(parsed_url: Any, options: dict[str, Any]) -> str:
    query = urlencode(options, quote_via=quote)
    scheme = parsed_url.scheme.removeprefix("interlock+")
    return f"{scheme}://{parsed_url.netloc}{parsed_url.path}" + (f"?{query}" if query else "")


def _checked_ttl(given: Any) -> float:
    try:
        ttl = float(given)
    except (TypeError, ValueError):
        raise tooz.ToozError(f"timeout={given!r} in the coordinator's URL has to be a number of seconds.") from None
    return LeaseTiming.of(ttl).ttl


def _checked_readers(given: Any) -> int | None:
    try:
        return None if given is None else int(given)
    except (TypeError, ValueError):
        raise tooz.ToozError(f"readers={given!r} in the coordinator's URL has to be a whole number.") from None
