"""Several leases at once: all of them or none.

They are acquired one after the other, in the order of their names, whatever order the caller gave. So two processes
that want the same leases never wait for each other. If one lease is lost while the process waits for the rest, all are
acquired again.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from interlock.block_body import Body
from interlock.coordination.lease.blocks import Acquisition, OpenBlocks
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.lease import LeaseSettings
from interlock.coordination.lease.times import Duration, checked_timeout
from interlock.errors import ConfigurationError, LeaseLost, LeaseTimeout

if TYPE_CHECKING:
    from interlock.coordination.engine.engine import Engine


class AsyncGrants:
    """The grants of several leases, in the order of their names. All count as lost when the first of them is lost."""

    def __init__(self, grants: Sequence[AsyncGrant], owner: object) -> None:
        self.grants = tuple(grants)
        self.owner = owner
        self._body: Body | None = None

    @property
    def tokens(self) -> Mapping[str, int]:
        return MappingProxyType({grant.name: grant.token for grant in self.grants})

    @property
    def lost(self) -> bool:
        return any(grant.lost for grant in self.grants)

    @property
    def remaining(self) -> float:
        return min(grant.remaining for grant in self.grants)

    @property
    def ended(self) -> bool:
        return any(grant.ended for grant in self.grants)

    @property
    def is_detached(self) -> bool:
        return self.grants[0].is_detached

    def check(self) -> None:
        """Raise `LeaseLost` if one of the leases is not held any more."""
        for grant in self.grants:
            grant.check()

    async def guard(self, connection: Any = None) -> None:
        """Let the connection's open transaction commit only while all grants are current."""
        for grant in self.grants:
            await grant.guard(connection)

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Call the callback once, with the reason, when the first of the leases is lost."""
        notified = False

        def notify(why: str) -> None:
            nonlocal notified
            if not notified:
                notified = True
                callback(why)

        for grant in self.grants:
            grant.on_lost(notify)

    async def release(self) -> bool:
        """Release all leases. Returns False if one of them was not held any more."""
        releasing = asyncio.gather(*(grant.release() for grant in self.grants))
        # A caller that is cancelled in this very step has released them all the same.
        return all(await asyncio.shield(releasing))

    def error(self) -> LeaseLost:
        return next((grant for grant in self.grants if grant.lost), self.grants[0]).error()

    async def __aenter__(self) -> Self:
        if self.ended or self.lost:  # between the grant and this block
            await self.release()
            raise self.error()
        self._body = Body()
        self.on_lost(self._body.cancel)
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        body, self._body = self._body, None
        others_cancelled = await body.end(error) if body else False
        released_before = all(grant.is_released for grant in self.grants)
        held = await self.release()
        if held or released_before:
            return
        if others_cancelled:
            raise asyncio.CancelledError from self.error()
        raise self.error() from error


class LeasesSettings:
    """The settings of several leases, and the code that acquires all of them."""

    def __init__(self, leases: Sequence[LeaseSettings]) -> None:
        if not leases:
            raise ConfigurationError("leases() got no name: give it at least one name of a lease.")
        self._leases = sorted(leases, key=lambda lease: lease.name)
        self.names = tuple(lease.name for lease in self._leases)
        if len(set(self.names)) < len(self.names):
            raise ConfigurationError(
                "A name of a lease is given twice, so the process would wait for itself without end: give each "
                f"name once: {self.names}."
            )

    async def try_acquire(self, engine: "Engine", owner: object) -> AsyncGrants | None:
        tasks = [asyncio.create_task(lease.try_acquire(engine, owner, AsyncGrant)) for lease in self._leases]
        try:
            await asyncio.wait(tasks)
            granted = [grant for task in tasks if (grant := task.result())]
        except BaseException:
            for task in tasks:
                task.add_done_callback(lambda task: _drop(engine, task))
                task.cancel()
            raise
        if len(granted) == len(tasks):
            return AsyncGrants(granted, owner)
        for grant in granted:
            engine.drop(grant)
        return None

    async def acquire(self, engine: "Engine", owner: object, timeout: float | None) -> AsyncGrants:
        try:
            async with asyncio.timeout(timeout or None):
                if grants := await self.try_acquire(engine, owner):
                    return grants
                if timeout == 0:
                    raise TimeoutError
                while True:
                    grants = await self._one_by_one(engine, owner)
                    if not grants.lost:
                        return grants
                    _drop_all(engine, grants.grants)
        except TimeoutError:
            raise LeaseTimeout(
                f"The leases {', '.join(map(repr, self.names))} were not acquired together within {timeout:g} s: "
                "`interlock lease list` shows their holders.",
                name=self.names[0],
            ) from None

    async def _one_by_one(self, engine: "Engine", owner: object) -> AsyncGrants:
        granted: list[AsyncGrant] = []
        try:
            for lease in self._leases:
                granted.append(await lease.acquire(engine, owner, None, AsyncGrant))  # noqa: PERF401 # kept if one fails
        except BaseException:
            _drop_all(engine, granted)
            raise
        return AsyncGrants(granted, owner)


class AsyncLeases:
    """``async with locks.leases("a", "b") as grants: …`` waits until it holds all the leases."""

    def __init__(self, engine: "Callable[[], Engine]", settings: LeasesSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._entered: OpenBlocks[AsyncGrants] = OpenBlocks()

    @property
    def names(self) -> tuple[str, ...]:
        return self._settings.names

    async def try_acquire(self) -> AsyncGrants | None:
        """Return all grants if all leases are free and no process waits for one; otherwise return None at once."""
        return await self._settings.try_acquire(self._engine(), asyncio.current_task())

    def acquire(self, timeout: Duration | None = None) -> Acquisition[AsyncGrants]:
        """Wait for all leases; await or enter the result. Raises `LeaseTimeout` after `timeout` seconds."""
        return Acquisition(self._acquire(checked_timeout(timeout)))

    async def __aenter__(self) -> AsyncGrants:
        grants = await (await self._acquire(None)).__aenter__()
        return self._entered.add(grants.owner, grants)

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self._entered.pop(asyncio.current_task()).__aexit__(kind, error, trace)

    async def _acquire(self, timeout: float | None) -> AsyncGrants:
        return await self._settings.acquire(self._engine(), asyncio.current_task(), timeout)


def _drop(engine: "Engine", task: "asyncio.Task[AsyncGrant | None]") -> None:
    if not task.cancelled() and task.exception() is None and (grant := task.result()):
        engine.drop(grant)


def _drop_all(engine: "Engine", grants: Sequence[AsyncGrant]) -> None:
    for grant in grants:
        engine.drop(grant)
