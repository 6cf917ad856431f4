"""What a root object does on one event loop of one process: ask for leases, keep them, give them back.

Who may do what. A request is sent with a grant_id of its own, any number of times, and is granted once. A grant is
trusted from the answer on, counted from before the question. It ends once, by `finish`: whoever ends it first (its
holder, the keeper, the closing of the root) decides what it ended by, and only then tells the store.

What is left behind. A caller that goes away while its request is under way: the answer finds nobody, and is given
back. A request whose answer is lost: asked again; if that fails too, asked again in the background for as long as it
could have been granted for, and given back. A release that cannot be delivered: tried again for as long. The process
dies: its leases expire, its waiters are seen to be dead.
"""

import asyncio
import os
import random
from collections.abc import Coroutine
from typing import Any
from uuid import UUID

from interlock import errors
from interlock.clock import boottime
from interlock.coordination.events import Loss
from interlock.coordination.grant import AsyncGrant
from interlock.coordination.keeping import Keeper
from interlock.coordination.lane import Lane
from interlock.coordination.observing import Observer
from interlock.coordination.timing import LeaseTiming
from interlock.coordination.waiting import WaitingRoom
from interlock.stores.leases import AcquireAnswer, Ask, LeaseStore, ReleaseAnswer

_TRANSIENT = (errors.ConnectionLost, errors.DatabaseUnreachable, errors.LockNotAvailable, errors.NotPrimary)
_FOLLOW_UP = 1.05
"""A waiter that was told has a second to come; then the next is told."""
_SWEEP_EVERY = 3600.0
_UNUSED = 7 * 86400.0


def new_grant_id() -> UUID:
    return UUID(bytes=os.urandom(16))


class Engine:
    """`idle_after`: connections that were not used for so long are closed."""

    def __init__(self, store: LeaseStore, observer: Observer, *, schema: str, idle_after: float) -> None:
        self.pid = os.getpid()
        self.schema = schema
        self.closed = False
        self._store = store
        self._observer = observer
        self._idle_after = idle_after
        self._asking: Lane[Ask, AcquireAnswer] = Lane(store.acquire, self._give_back)
        self._releasing: Lane[AsyncGrant, ReleaseAnswer] = Lane(store.release, self._settle, always=True)
        self._leaving: Lane[UUID, None] = Lane(self._abandon, lambda *_: None, always=True)
        self._keeper = Keeper(store, observer, self._lose)
        self._room = WaitingRoom(store)
        self._holdings: set[tuple[object, str]] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._reached = False
        self._offered: set[str] = set()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._sweep_at = boottime() + _SWEEP_EVERY * random.random()

    @property
    def held(self) -> int:
        return len(self._keeper.grants)

    async def try_acquire(
        self, name: str, timing: LeaseTiming, metadata: str | None, owner: object
    ) -> AsyncGrant | None:
        """The lease, if it is free and nobody waits for it."""
        started = boottime()
        ask = Ask(name, new_grant_id(), timing.ttl, metadata, False)
        answer, sent_at = await self._ask(ask, resend=1)
        if answer.status == "granted":
            return self._granted(ask, answer, sent_at, timing, owner, started, 1)
        self._observer.not_acquired(name, boottime() - started, 1, "busy", answer.holder)
        return None

    async def acquire(
        self, name: str, timing: LeaseTiming, metadata: str | None, owner: object, timeout: float | None
    ) -> AsyncGrant:
        """The lease, in one's turn; `LeaseTimeout` if that does not come in time."""
        if (owner, name) in self._holdings:
            raise errors.LeaseNested(
                f"The lease {name!r} is held by this very task or thread, which would wait for itself for ever: "
                "pass the grant on instead of acquiring again.",
                name=name,
            )
        started = boottime()
        ask = Ask(name, new_grant_id(), timing.ttl, metadata, wait=False)
        attempts = 1
        try:
            async with asyncio.timeout(timeout or None):
                queue = self._room.hears and timeout != 0
                found = None if queue else await self._ask(ask)  # it may be free: then nobody has to listen
                if found and found[0].status == "granted":
                    answer, sent_at = found
                elif timeout == 0:
                    raise TimeoutError
                else:
                    answer, sent_at, attempts = await self._in_turn(ask, started)
        except TimeoutError:
            self._observer.not_acquired(name, boottime() - started, attempts, "timeout")
            raise errors.LeaseTimeout(
                f"The lease {name!r} was not to be had within {timeout:g} s: `interlock lease show` says who holds it.",
                name=name,
            ) from None
        except asyncio.CancelledError:
            self._observer.not_acquired(name, boottime() - started, attempts, "cancelled")
            raise
        except errors.InterlockError:
            self._observer.not_acquired(name, boottime() - started, attempts, "error")
            raise
        return self._granted(ask, answer, sent_at, timing, owner, started, attempts)

    async def release(self, grant: AsyncGrant) -> bool:
        if grant.is_inherited:
            return False
        mine = not grant.lost and grant.finish("released")
        if grant.finish("expired"):  # its time ran out, and nobody noticed yet
            self._lose_finished(grant, "expired")
        self._keeper.remove(grant)
        self._holdings.discard((grant.owner, grant.name))
        if not mine:
            self._in_background(self._release_later(grant, told=False))
            return False
        self._observer.released(grant.name, grant.token, boottime() - grant.acquired_at)
        try:
            answer, sent_at = await self._releasing.submit(grant)
        except errors.StoreError as error:
            self._observer.database_error(error)
            self._in_background(self._release_later(grant, told=True))
            return True
        self._settle(grant, answer, sent_at)
        return answer.status != "lost"

    async def hand_over(self, grant: AsyncGrant) -> bool:
        grant.check()
        answer = await self._store.hand_over(grant)
        if answer.status == "lost":
            self._lose(grant, "refused")
            raise grant.error()
        if answer.status != "released":
            return False
        if grant.finish("released"):
            self._observer.handed_over(grant.name, grant.token, boottime() - grant.acquired_at)
        self._keeper.remove(grant)
        self._holdings.discard((grant.owner, grant.name))
        self._settle(grant, answer, boottime())
        return True

    async def close(self) -> None:
        """Give back everything that is still held, and hang up."""
        self.closed = True
        for grant in list(self._keeper.grants):
            self._lose(grant, "closed")
            self._releasing.submit(grant)
        self._room.call_all()
        await self._keeper.close()
        for lane in (self._asking, self._releasing, self._leaving):
            await lane.drain()
        for task in list(self._background):
            task.cancel()
        if self._background:
            await asyncio.wait(self._background)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        await self._store.close()

    async def _ask(self, ask: Ask, resend: int | None = None) -> tuple[AcquireAnswer, float]:
        """With the same grant_id as often as it takes; `resend` times if that is given."""
        failures = 0
        while True:
            if self.closed:
                raise errors.ConfigurationError("This Interlock was closed: open it anew.")
            if self._idle_timer is None:
                self._watch_idleness()
            asked = self._asking.submit(ask)
            try:
                answer = await asked
            except asyncio.CancelledError:
                if asked.done() and not asked.cancelled() and not asked.exception():  # both came at once
                    self._give_back(ask, *asked.result())
                raise
            except _TRANSIENT as error:
                self._observer.database_error(error)
                if not self._reached or failures == resend:
                    self._in_background(self._find_out(ask))
                    raise
            else:
                self._reached = True
                return answer
            failures += 1
            await asyncio.sleep(random.uniform(0.5, 1.0) * min(0.05 * 2**failures, 1.0))

    async def _in_turn(self, ask: Ask, started: float) -> tuple[AcquireAnswer, float, int]:
        """Ask, and as long as another has it, queue for it."""
        ask.wait = True
        turn = self._room.enter(ask)
        attempts = 0
        try:
            while True:
                await self._open_ear()
                answer, sent_at = await self._ask(ask)
                attempts += 1
                if answer.status == "granted":
                    return answer, sent_at, attempts
                if attempts == 1:
                    self._observer.waiting(ask.name, answer.holder)
                else:
                    self._observer.still_waiting(ask.name, answer.holder, boottime() - started)
                await self._room.pause(turn, answer)
        except BaseException:
            self._leaving.submit(ask.grant_id)
            raise
        finally:
            self._room.leave(turn)
            if attempts > 1 or (attempts == 1 and answer.status != "granted"):
                self._observer.stopped_waiting()

    async def _open_ear(self) -> None:
        if self._room.hears:
            return
        try:
            await self._room.open_ear()
        except _TRANSIENT as error:  # then it is asked for now and then, until the ear opens again
            self._observer.database_error(error)

    def _granted(
        self,
        ask: Ask,
        answer: AcquireAnswer,
        sent_at: float,
        timing: LeaseTiming,
        owner: object,
        started: float,
        attempts: int,
    ) -> AsyncGrant:
        grant = AsyncGrant(self, ask.name, answer.token, ask.grant_id, timing, owner)
        grant.trusted_until = sent_at + answer.remaining - timing.margin
        grant.renew_at = min(sent_at + timing.renew_every, grant.trusted_until)
        self._holdings.add((owner, ask.name))
        self._keeper.add(grant)
        self._observer.granted(ask.name, answer.token, grant.acquired_at - started, attempts)
        return grant

    def _lose(self, grant: AsyncGrant, why: Loss) -> None:
        if grant.finish(why):
            self._lose_finished(grant, why)

    def _lose_finished(self, grant: AsyncGrant, why: Loss) -> None:
        self._keeper.remove(grant)
        self._holdings.discard((grant.owner, grant.name))
        self._observer.lost(grant.name, grant.token, boottime() - grant.acquired_at, why)
        grant.tell(why)

    def _give_back(self, ask: Ask, answer: AcquireAnswer, sent_at: float) -> None:
        """Whoever asked has gone meanwhile."""
        if answer.status == "granted":
            self._releasing.submit(self._unwanted(ask, answer))
        elif ask.wait:
            self._leaving.submit(ask.grant_id)

    def _unwanted(self, ask: Ask, answer: AcquireAnswer) -> AsyncGrant:
        grant = AsyncGrant(self, ask.name, answer.token, ask.grant_id, LeaseTiming.of(max(ask.ttl, 1.0)), None)
        grant.finish("released")
        return grant

    async def _find_out(self, ask: Ask) -> None:
        """A request failed, and perhaps was granted all the same: then it is given back."""
        ask.wait = False
        ends_at = boottime() + ask.ttl
        while boottime() < ends_at:
            await asyncio.sleep(random.uniform(0.5, 1.0) * min(ask.ttl / 4, 5.0))
            try:
                (answer,) = await self._store.acquire([ask])
            except errors.StoreError:
                continue
            if answer.status == "granted":
                await self._release_later(self._unwanted(ask, answer), told=True)
            return

    async def _release_later(self, grant: AsyncGrant, *, told: bool) -> None:
        """Until the store has it, or the lease has expired there; at first without delay if it was not `told` yet."""
        ends_at = boottime() + grant.ttl
        while boottime() < ends_at:
            if told:
                await asyncio.sleep(random.uniform(0.2, 0.5) * min(grant.ttl, 2.0))
            told = True
            try:
                answer, sent_at = await self._releasing.submit(grant)
            except errors.StoreError:
                continue
            if answer.status != "locked":
                self._settle(grant, answer, sent_at)
                return

    def _settle(self, grant: AsyncGrant, answer: ReleaseAnswer, sent_at: float) -> None:
        """A lease was released: whose turn is it now?"""
        if answer.offered is not None:
            if answer.elsewhere:
                self._follow_up(grant.name)
            else:
                self._room.call(answer.offered)
        elif answer.status == "locked":
            self._in_background(self._release_later(grant, told=True))
        if sent_at > self._sweep_at and not self.closed:
            self._sweep_at = sent_at + _SWEEP_EVERY * random.uniform(0.5, 1.5)
            self._in_background(self._sweep())

    def _follow_up(self, name: str) -> None:
        """Whoever was told may have died, or stand still, at that very moment."""
        if not self._offered:
            asyncio.get_running_loop().call_later(_FOLLOW_UP, self._offer_again)
        self._offered.add(name)

    def _offer_again(self) -> None:
        names, self._offered = self._offered, set()
        if not self.closed:
            self._in_background(self._offer(names))

    async def _offer(self, names: set[str]) -> None:
        try:
            for grant_id in await self._store.offer(sorted(names)):
                self._room.call(grant_id)
        except errors.StoreError as error:
            self._observer.database_error(error)

    async def _abandon(self, grant_ids: Any) -> list[None]:
        for grant_id in await self._store.abandon(grant_ids):
            self._room.call(grant_id)
        return [None] * len(grant_ids)

    async def _sweep(self) -> None:
        try:
            await self._store.sweep(_UNUSED)
        except errors.StoreError as error:
            self._observer.database_error(error)

    def _watch_idleness(self) -> None:
        self._idle_timer = asyncio.get_running_loop().call_later(self._idle_after / 2, self._look_for_idleness)

    def _look_for_idleness(self) -> None:
        self._idle_timer = None
        if not self.closed:
            self._in_background(self._close_idle())

    async def _close_idle(self) -> None:
        """Who holds nothing and waits for nothing needs no connection."""
        await self._room.close_ear()
        if not await self._store.close_idle(self._idle_after) and self._idle_timer is None and not self.closed:
            self._watch_idleness()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
