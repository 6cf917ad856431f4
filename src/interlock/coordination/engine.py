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
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TypeVar
from uuid import UUID

from interlock import errors
from interlock.clock import boottime
from interlock.coordination.errands import UNKNOWN, Errands
from interlock.coordination.grant import AsyncGrant
from interlock.coordination.keeping import Keeper
from interlock.coordination.lane import Lane
from interlock.coordination.observing import Observer
from interlock.coordination.reasons import Loss, Reason
from interlock.coordination.timing import LeaseTiming
from interlock.coordination.waiting import WaitingRoom
from interlock.stores.leases import AcquireAnswer, Ask, LeaseStore, ReleaseAnswer
from interlock.stores.listing import HeldLease, Listing
from interlock.stores.records import Record, Records

G = TypeVar("G", bound=AsyncGrant)
T = TypeVar("T")

_TRANSIENT = (*UNKNOWN, errors.LockNotAvailable, errors.NotPrimary)
_HELD = "`interlock lease show` says who holds it."
_NO_SCHEMA = ("3F000", "42883", "42P01")
"""No such schema, function or table."""
_LOOKS = 5
"""How often a look at the store is tried again before whoever wants it is told that it failed."""


class Store(LeaseStore, Listing, Records, Protocol):
    """What an engine works on."""


def new_grant_id() -> UUID:
    return UUID(bytes=os.urandom(16))


class Engine:
    """`idle_after`: connections that were not used for so long are closed. `look` raises what is wrong with the schema,
    and is called when it looks as if something were."""

    def __init__(
        self,
        store: Store,
        observer: Observer,
        *,
        schema: str,
        idle_after: float,
        look: Callable[[], Awaitable[object]],
    ) -> None:
        self.pid = os.getpid()
        self.schema = schema
        self.closed = False
        self._store = store
        self._observer = observer
        self._idle_after = idle_after
        self._look = look
        self._room = WaitingRoom(store)
        self._errands = Errands(store, observer, self._room)
        self._asking: Lane[Ask, AcquireAnswer] = Lane(store.acquire, self._errands.give_back, self._errands.failed)
        self._handing: Lane[AsyncGrant, ReleaseAnswer] = Lane(
            store.hand_over, self._handed_over, self._perhaps_handed_over, always=True
        )
        self._keeper = Keeper(store, observer, self._lose)
        self._holdings: set[tuple[object, str]] = set()
        self._reached = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closing_idle: asyncio.Task[None] | None = None

    @property
    def held(self) -> int:
        return len(self._keeper.grants)

    def holds(self, owner: object, name: str) -> bool:
        """Whether that task or thread has it, as far as we know."""
        return (owner, name) in self._holdings

    async def try_acquire(
        self, name: str, timing: LeaseTiming, metadata: str | None, owner: object, kind: type[G]
    ) -> G | None:
        """The lease, if it is free and nobody waits for it."""
        started = boottime()
        ask = Ask(name, new_grant_id(), timing.ttl, metadata, wait=False)
        with self._ending(ask, started):
            answer, sent_at = await self._ask(ask, resend=1)
        if answer.status == "granted":
            return self._granted(ask, answer, sent_at, timing, owner, started, kind)
        self._not_acquired(ask, started, "busy", answer.holder)
        return None

    async def acquire(
        self, name: str, timing: LeaseTiming, metadata: str | None, owner: object, timeout: float | None, kind: type[G]
    ) -> G:
        """The lease, in one's turn; `LeaseTimeout` if that does not come in time."""
        if self.holds(owner, name):
            raise errors.LeaseNested(
                f"The lease {name!r} is held by this very task or thread, which would wait for itself for ever: "
                "pass the grant on instead of acquiring again.",
                name=name,
            )
        started = boottime()
        ask = Ask(name, new_grant_id(), timing.ttl, metadata, wait=False)
        with self._ending(ask, started):
            try:
                async with asyncio.timeout(timeout or None):
                    answer, sent_at = await self._first_or_in_turn(ask, started, may_wait=timeout != 0)
            except TimeoutError:
                sentence = f"The lease {name!r} was not to be had within {timeout:g} s: {ask.trouble or _HELD}"
                raise errors.LeaseTimeout(sentence, name=name) from ask.trouble
        return self._granted(ask, answer, sent_at, timing, owner, started, kind)

    async def acquire_any(
        self, whole: str, names: Sequence[str], timing: LeaseTiming, metadata: str | None, owner: object, kind: type[G]
    ) -> G:
        """Whichever of these leases comes first: we are in all of their queues at once. To observers it is `whole`."""
        started = boottime()
        asks = [Ask(name, new_grant_id(), timing.ttl, metadata, wait=True) for name in names]
        with self._ending(Ask(whole, new_grant_id(), timing.ttl, metadata, wait=True), started):
            ask, answer, sent_at = await self._first_of(whole, asks, started)
        return self._granted(ask, answer, sent_at, timing, owner, started, kind)

    def drop(self, grant: AsyncGrant) -> None:
        """Give it back, without waiting for that."""
        if not grant.is_inherited and grant.finish("released"):
            self._observer.released(grant.name, grant.token, boottime() - grant.acquired_at)
            self._forget(grant)
            self._errands.releasing.post(grant)

    async def list_held(self, prefix: str) -> list[HeldLease]:
        """The leases that are held now, whose names begin so."""
        return await self._look_up(lambda: self._store.held(prefix), _LOOKS)

    async def read(self, key: str) -> Record | None:
        return await self._look_up(lambda: self._store.read(key), _LOOKS)

    async def write(self, key: str, value: str, grant: AsyncGrant) -> None:
        """Raises `LeaseLost` if the grant is not current; as long as it is trusted, it is tried again."""

        async def write() -> bool:
            grant.check()
            return await self._store.write(key, value, grant)

        if not await self._look_up(write, None):
            self._lose(grant, "refused")
            raise grant.error()

    async def release(self, grant: AsyncGrant) -> bool:
        if grant.is_inherited or grant.is_released:
            return False
        mine = not grant.lost and grant.finish("released")
        if grant.finish("expired"):  # its time ran out, and nobody noticed yet
            self._lose_finished(grant, "expired")
        self._forget(grant)
        if not mine:
            self._errands.release(grant)
            return False
        self._observer.released(grant.name, grant.token, boottime() - grant.acquired_at)
        try:
            answer, sent_at = await self._errands.releasing.submit(grant)
        except errors.InterlockError as error:
            self._observer.database_error(error)
            self._errands.release_later(grant)
            return True
        self._errands.settle(grant, answer, sent_at)
        if answer.status == "lost":
            grant.correct("refused")
        return answer.status != "lost"

    async def hand_over(self, grant: AsyncGrant) -> bool:
        while True:
            grant.check()
            try:
                answer, sent_at = await self._handing.submit(grant)
            except UNKNOWN as error:
                self._perhaps_handed_over(grant, error)
                raise grant.error() from error
            if answer.status != "locked":
                break
            await asyncio.sleep(random.uniform(0.005, 0.02))
        self._handed_over(grant, answer, sent_at)
        if answer.status == "lost":
            raise grant.error()
        return answer.status == "released"

    async def close(self) -> None:
        """Give back everything that is still held, and hang up."""
        self.closed = True
        self._asking.dismiss(_closed())
        for grant in list(self._keeper.grants):
            self._lose(grant, "closed")
            self._errands.releasing.post(grant)
        self._room.call_all()
        await asyncio.sleep(0)  # whoever was just answered gives back what it got
        await self._keeper.close()
        await self._asking.drain()
        await self._handing.drain()
        await self._errands.close()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._closing_idle is not None:
            await asyncio.wait([self._closing_idle])
        await self._store.close()

    async def _first_or_in_turn(self, ask: Ask, started: float, *, may_wait: bool) -> tuple[AcquireAnswer, float]:
        if not self._room.hears or not may_wait:  # it may be free: then nobody has to listen
            answer, sent_at = await self._ask(ask, resend=None if may_wait else 1)
            if answer.status == "granted":
                return answer, sent_at
        if not may_wait:
            raise TimeoutError
        return await self._in_turn(ask, started)

    async def _ask(self, ask: Ask, resend: int | None = None) -> tuple[AcquireAnswer, float]:
        """With the same grant_id as often as it takes; `resend` times if that is given."""
        failures = 0
        while True:
            self._check_open()
            self._watch_idleness()
            ask.attempts += 1
            asked = self._asking.submit(ask)
            try:
                answer, sent_at = await asked
            except asyncio.CancelledError:
                if asked.done() and not asked.cancelled() and not asked.exception():  # both came at once
                    self._errands.give_back(ask, *asked.result())
                raise
            except _TRANSIENT as error:
                self._observer.database_error(error)
                ask.trouble = error
                ask.in_doubt = ask.in_doubt or isinstance(error, UNKNOWN)
                if not self._reached or failures == resend:
                    raise
            except errors.StatementFailed as error:
                if error.sqlstate in _NO_SCHEMA:
                    await self._look()
                raise
            else:
                self._reached = True
                ask.trouble = None
                if self.closed:
                    self._errands.give_back(ask, answer, sent_at)
                    raise _closed()
                return answer, sent_at
            failures += 1
            await asyncio.sleep(random.uniform(0.5, 1.0) * min(0.05 * 2**failures, 1.0))

    async def _look_up(self, look: Callable[[], Awaitable[T]], resend: int | None) -> T:
        """What may be sent twice, and is if its answer got lost: `resend` times if that is given."""
        failures = 0
        while True:
            self._check_open()
            self._watch_idleness()
            try:
                answer = await look()
            except _TRANSIENT as error:
                self._observer.database_error(error)
                if not self._reached or failures == resend:
                    raise
            except errors.StatementFailed as error:
                if error.sqlstate in _NO_SCHEMA:
                    await self._look()
                raise
            else:
                self._reached = True
                return answer
            failures += 1
            await asyncio.sleep(random.uniform(0.5, 1.0) * min(0.05 * 2**failures, 1.0))

    async def _first_of(self, whole: str, asks: Sequence[Ask], started: float) -> tuple[Ask, AcquireAnswer, float]:
        """The others leave their queues; what they were granted at the same moment is given back."""
        turns = [(ask, asyncio.create_task(self._in_turn(ask, started, quiet=True))) for ask in asks]
        self._observer.waiting(whole, None)
        winner: Ask | None = None
        try:
            await asyncio.wait([turn for _, turn in turns], return_when=asyncio.FIRST_COMPLETED)
            ask, turn = next(pair for pair in turns if pair[1].done())
            answer, sent_at = turn.result()
            winner = ask
            return ask, answer, sent_at
        finally:
            self._observer.stopped_waiting()
            for ask, turn in turns:
                if ask is not winner:
                    turn.add_done_callback(partial(self._not_wanted, ask))
                    turn.cancel()

    def _not_wanted(self, ask: Ask, turn: "asyncio.Task[tuple[AcquireAnswer, float]]") -> None:
        if not turn.cancelled() and turn.exception() is None:
            self._errands.give_back(ask, *turn.result())
        elif ask.in_doubt:
            self._errands.find_out(ask)

    async def _in_turn(self, ask: Ask, started: float, *, quiet: bool = False) -> tuple[AcquireAnswer, float]:
        """Ask, and as long as another has it, queue for it. `quiet`: observers are told by somebody else."""
        ask.wait = True
        turn = self._room.enter(ask)
        waits = False
        try:
            while True:
                await self._open_ear()
                answer, sent_at = await self._ask(ask)
                if answer.status == "granted":
                    return answer, sent_at
                if quiet:
                    pass
                elif waits:
                    self._observer.still_waiting(ask.name, answer.holder, boottime() - started)
                else:
                    self._observer.waiting(ask.name, answer.holder)
                    waits = True
                await self._room.pause(turn, answer)
        except BaseException:
            self._errands.leaving.post(ask.grant_id)
            raise
        finally:
            self._room.leave(turn)
            if waits:
                self._observer.stopped_waiting()

    def _check_open(self) -> None:
        if self.closed:
            raise _closed()

    async def _open_ear(self) -> None:
        if self._room.hears:
            return
        try:
            await self._room.open_ear()
        except _TRANSIENT as error:  # then it is asked for now and then, until the ear opens again
            self._observer.database_error(error)

    @contextmanager
    def _ending(self, ask: Ask, started: float) -> Iterator[None]:
        """However an acquire ends without an answer: it is counted, and what it may have left behind is looked for."""
        try:
            yield
        except BaseException as error:
            match error:
                case errors.LeaseTimeout():
                    self._not_acquired(ask, started, "timeout")
                case asyncio.CancelledError():
                    self._not_acquired(ask, started, "cancelled")
                case _:
                    self._not_acquired(ask, started, "error")
            raise

    def _not_acquired(self, ask: Ask, started: float, reason: Reason, holder: str | None = None) -> None:
        self._observer.not_acquired(ask.name, boottime() - started, ask.attempts, reason, holder)
        if ask.in_doubt:
            self._errands.find_out(ask)

    def _granted(
        self,
        ask: Ask,
        answer: AcquireAnswer,
        sent_at: float,
        timing: LeaseTiming,
        owner: object,
        started: float,
        kind: type[G],
    ) -> G:
        grant = kind(self, ask.name, answer.token, ask.grant_id, timing, owner)
        grant.trusted_until = sent_at + answer.remaining - timing.margin
        grant.renew_at = min(sent_at + timing.renew_every, grant.trusted_until)
        self._holdings.add((owner, ask.name))
        self._keeper.add(grant)
        self._observer.granted(ask.name, answer.token, grant.acquired_at - started, ask.attempts)
        return grant

    def _handed_over(self, grant: AsyncGrant, answer: ReleaseAnswer, sent_at: float) -> None:
        if answer.status == "lost":
            self._lose(grant, "refused")
        elif answer.status == "released":
            if grant.finish("released"):
                self._observer.handed_over(grant.name, grant.token, boottime() - grant.acquired_at)
            self._forget(grant)
            self._errands.settle(grant, answer, sent_at)

    def _perhaps_handed_over(self, grant: AsyncGrant, error: Exception) -> None:
        """Another may have it, so it is not ours any more; if nobody has it, it is given back."""
        self._observer.database_error(error)
        if isinstance(error, UNKNOWN):
            self._lose(grant, "refused")
            self._errands.release_later(grant)

    def _lose(self, grant: AsyncGrant, why: Loss) -> None:
        if grant.finish(why):
            self._lose_finished(grant, why)

    def _lose_finished(self, grant: AsyncGrant, why: Loss) -> None:
        self._forget(grant)
        self._observer.lost(grant.name, grant.token, boottime() - grant.acquired_at, why)
        grant.tell(why)

    def _forget(self, grant: AsyncGrant) -> None:
        self._keeper.remove(grant)
        self._holdings.discard((grant.owner, grant.name))

    def _watch_idleness(self) -> None:
        if self._idle_timer is None and not self.closed:
            self._idle_timer = asyncio.get_running_loop().call_later(self._idle_after / 2, self._look_for_idleness)

    def _look_for_idleness(self) -> None:
        self._idle_timer = None
        if not self.closed:
            self._closing_idle = asyncio.get_running_loop().create_task(self._close_idle())

    async def _close_idle(self) -> None:
        """Who holds nothing and waits for nothing needs no connection."""
        await self._room.close_ear()
        none_open = await self._store.close_idle(self._idle_after)
        if self.held or not none_open or not self._errands.are_done:
            self._watch_idleness()


def _closed() -> errors.ConfigurationError:
    return errors.ConfigurationError("This Interlock was closed: open it anew.")
