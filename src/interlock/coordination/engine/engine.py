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
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from interlock import errors, process
from interlock.clock import boottime
from interlock.coordination.backends.choice import GuardsByItem, LeaseDatabase, OpenStore
from interlock.coordination.engine.acquisition import Acquisition, Response
from interlock.coordination.engine.batch import Batcher
from interlock.coordination.engine.deferred import UNKNOWN, DeferredRequests, is_unknown
from interlock.coordination.engine.handover import HandOvers
from interlock.coordination.engine.queue import WaitQueue
from interlock.coordination.engine.records import LeaseRecords
from interlock.coordination.engine.renewal import Renewals
from interlock.coordination.engine.retry import PASSING, RetryPolicy
from interlock.coordination.engine.unconfirmed_releases import UnconfirmedReleases
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.reasons import Loss, Reason
from interlock.coordination.lease.times import LeaseTiming
from interlock.coordination.observation.observer import Observer
from interlock.stores.leases import AcquireAnswer, ReleaseAnswer

G = TypeVar("G", bound=AsyncGrant)
T = TypeVar("T")

_BRIEF_MARGIN = 0.1
_BRIEFLY_HELD = 0.05
"""A grant that was handed on is renewed after so long. Many are given back before."""


class Engine:
    """`idle_after`: connections that were not used for so long are closed."""

    def __init__(
        self,
        store: OpenStore,
        observer: Observer,
        *,
        database: LeaseDatabase,
        idle_after: float,
    ) -> None:
        self.pid = process.pid
        self.database = database
        self.closed = False
        self._store = store
        self._observer = observer
        self._idle_after = idle_after
        self._queue = WaitQueue(store)
        self._deferred = DeferredRequests(store, observer, self._queue)
        self._retry = RetryPolicy(store, observer)
        self.records = LeaseRecords(store, self._retry, self._deferred, self._before_each, self._lose)
        self._unconfirmed = UnconfirmedReleases(self._deferred.releasing, self._see_let_go)
        self._acquiring: Batcher[Acquisition[Any], AcquireAnswer] = Batcher(
            store.acquire, self._deferred.give_back, self._deferred.failed
        )
        self._hand_overs = HandOvers(store, observer, self._deferred, self._lose, self._forget)
        self._renewals = Renewals(store, observer, self._lose)
        self._holdings: set[tuple[object, str]] = set()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closing_idle: asyncio.Task[None] | None = None

    @property
    def held(self) -> int:
        return len(self._renewals)

    def holds(self, owner: object, name: str) -> bool:
        """Whether that task or thread has it, as far as we know."""
        return (owner, name) in self._holdings

    async def try_acquire(
        self, name: str, timing: LeaseTiming, metadata: str | None, owner: object, kind: type[G]
    ) -> G | None:
        """The lease, if it is free and nobody waits for it."""
        return await self.tried(self.begin_trying(name, timing, metadata, owner, kind))

    async def acquire(
        self, name: str, timing: LeaseTiming, metadata: str | None, owner: object, timeout: float | None, kind: type[G]
    ) -> G:
        """The lease, in one's turn; `LeaseTimeout` if that does not come in time."""
        return await self.acquired(self.begin(name, timing, metadata, owner, timeout, kind))

    async def acquire_any(
        self, whole: str, names: Sequence[str], timing: LeaseTiming, metadata: str | None, owner: object, kind: type[G]
    ) -> G:
        """Whichever of these leases comes first: we are in all of their queues at once. To observers it is `whole`."""
        started = boottime()
        try:
            acquisition, answer, sent_at = await self._first_of(
                whole, [Acquisition(name, timing, metadata, owner, None, kind) for name in names]
            )
        except BaseException as error:
            self._observer.not_acquired(whole, boottime() - started, 1, _reason(error))
            raise
        return self._granted(acquisition, answer, sent_at)

    def begin_trying(
        self, name: str, timing: LeaseTiming, metadata: str | None, owner: object, kind: type[G]
    ) -> Acquisition[G]:
        """Ask, and leave it to `tried` to wait for the answer."""
        return self._begin(Acquisition(name, timing, metadata, owner, 0.0, kind))

    def begin(
        self, name: str, timing: LeaseTiming, metadata: str | None, owner: object, timeout: float | None, kind: type[G]
    ) -> Acquisition[G]:
        """Ask, and leave it to `acquired` to wait for the answer."""
        if self.holds(owner, name):
            raise errors.LeaseNested(
                f"The lease {name!r} is held by this very task or thread, which would wait for itself for ever: "
                "pass the grant on instead of acquiring again.",
                name=name,
            )
        return self._begin(Acquisition(name, timing, metadata, owner, timeout, kind))

    def take(self, acquisition: Acquisition[G]) -> G | None:
        """What came of it, if that is simply the lease: most often it is, and then nobody has to wait for more."""
        response = acquisition.response
        if response is None or response.cancelled() or response.exception() or self.closed:
            return None
        answer, sent_at = response.result()
        if answer.status != "granted":
            return None
        self._retry.was_reached = True
        self._leave(acquisition)
        return self._granted(acquisition, answer, sent_at)

    async def tried(self, acquisition: Acquisition[G]) -> G | None:
        try:
            answer, sent_at = await self._ask(acquisition, resend=1)
        except BaseException as error:
            self._failed(acquisition, error)
            raise
        if answer.status == "granted":
            return self._granted(acquisition, answer, sent_at)
        self._not_acquired(acquisition, "busy", answer.holder)
        return None

    async def acquired(self, acquisition: Acquisition[G]) -> G:
        try:
            if acquisition.timeout:
                async with asyncio.timeout(max(0.0, acquisition.timeout - (boottime() - acquisition.started))):
                    answer, sent_at = await self._first_or_in_turn(acquisition)
            else:
                answer, sent_at = await self._first_or_in_turn(acquisition)
        except TimeoutError:
            why = acquisition.last_error or f"`interlock lease show {acquisition.name}` says who holds it."
            name, timeout = acquisition.name, acquisition.timeout
            late = errors.LeaseTimeout(f"The lease {name!r} was not to be had within {timeout:g} s: {why}", name=name)
            self._failed(acquisition, late)
            raise late from acquisition.last_error
        except BaseException as error:
            self._failed(acquisition, error)
            raise
        return self._granted(acquisition, answer, sent_at)

    def give_up(self, acquisition: Acquisition[Any]) -> None:
        """Nobody will wait for the answer; if somebody has, this has been seen to."""
        if acquisition.response is not None:
            self._leave(acquisition)
            self._failed(acquisition, asyncio.CancelledError())

    def hurry(self, grant: AsyncGrant) -> None:
        """Ask the store about it at once, instead of when its renewal is due."""
        if not grant.ended:
            self._renewals.hurry(grant)

    def drop(self, grant: AsyncGrant) -> None:
        """Give it back, without waiting for that."""
        if not grant.is_inherited and grant.finish("released"):
            try:
                self._deferred.releasing.post(grant)
            finally:
                self._note_release(grant)

    async def release(self, grant: AsyncGrant) -> bool:
        response = self.begin_releasing(grant)
        if response is None:
            return False
        try:
            with suppress(Exception):
                await response
        except asyncio.CancelledError:
            if response.done() and not response.cancelled():  # both came at once: whoever is next has still to be told
                self.released(grant, response)
            raise
        return self.released(grant, response)

    def begin_releasing(self, grant: AsyncGrant) -> "asyncio.Future[tuple[ReleaseAnswer, float]] | None":
        """It is not held any more from here on; `released` then says whether it was. None: it was not."""
        if not self._end(grant):
            return None
        response = None
        try:
            response = self._deferred.releasing.submit(grant)  # first: somebody may wait for it
        finally:
            self._note_release(grant, response)
        return response

    def let_go(self, grant: AsyncGrant) -> bool:
        """Give it back, and do not wait for the answer; later requests for that name are sent after it.

        False: it is not held any more, as far as we know.
        """
        if not self._end(grant):
            return False
        try:
            self._unconfirmed.send(grant)
        finally:
            self._note_release(grant)
        return True

    def _end(self, grant: AsyncGrant) -> bool:
        """Nobody trusts it from here on. False: nobody could, any more, and that has been seen to."""
        if not grant.lost and grant.finish("released"):
            return True
        if grant.is_inherited or grant.is_released:
            return False
        if grant.finish("expired"):  # its time ran out, and nobody noticed yet
            self._lose_finished(grant, "expired")
        self._forget(grant)
        self._deferred.release(grant)
        return False

    def _note_release(self, grant: AsyncGrant, response: "asyncio.Future[Any] | None" = None) -> None:
        self._forget(grant)
        try:
            self._observer.released(grant.name, grant.token, boottime() - grant.acquired_at)
        except BaseException:  # a hook ends the thread: nobody will wait for the answer
            if response is not None:
                response.cancel()
            raise

    def _see_let_go(self, grant: AsyncGrant, response: "asyncio.Future[tuple[ReleaseAnswer, float]]") -> None:
        if self.released(grant, response):
            return
        if response.result()[1] >= grant.trusted_until:  # let go of in time, and expired before this was sent
            grant.correct("released")
            return
        # A person took it, for one, and the block had ended before we heard of that.
        self._observer.lost_after_release(grant.name, grant.token, "refused")
        grant.tell("refused")

    def released(self, grant: AsyncGrant, response: "asyncio.Future[tuple[ReleaseAnswer, float]]") -> bool:
        """By the answer that has come."""
        if isinstance(error := response.exception(), Exception):
            self._deferred.release_later(grant)
            if not isinstance(error, errors.InterlockError):
                raise error
            self._observer.database_error(error)
            return True
        answer, sent_at = response.result()
        self._deferred.settle(grant, answer, sent_at)
        if answer.status == "lost":
            grant.correct("refused")
        return answer.status != "lost"

    async def hand_over(self, grant: AsyncGrant) -> bool:
        return await self._hand_overs.hand_over(grant)

    def guard_item(self, grant: AsyncGrant) -> dict[str, Any]:
        if not isinstance(self._store, GuardsByItem):
            raise errors.GuardRefused(
                f"The lease {grant.name!r} is not kept in DynamoDB: guard a transaction by grant.guard(connection).",
                name=grant.name,
            )
        return self._store.guard_item(grant)

    async def close(self) -> None:
        """Give back everything that is still held, and hang up."""
        self.closed = True
        self._acquiring.fail_all(_closed())
        for grant in self._renewals:
            self._lose(grant, "closed")
            self._deferred.releasing.post(grant)
        self._queue.call_all()
        await asyncio.sleep(0)  # whoever was just answered gives back what it got
        await self._renewals.close()
        await self._acquiring.drain()
        await self._hand_overs.drain()
        await self._deferred.close()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._closing_idle is not None:
            await asyncio.wait([self._closing_idle])
        await self._store.close()

    def _begin(self, acquisition: Acquisition[G]) -> Acquisition[G]:
        try:
            self._check_open()
            if self._queue.is_subscribed and acquisition.timeout != 0:
                self._enqueue(acquisition)
            acquisition.response = self._submit(acquisition)
        except BaseException as error:
            self._leave(acquisition)
            self._failed(acquisition, error)
            raise
        return acquisition

    def _submit(self, acquisition: Acquisition[Any]) -> Response:
        self._watch_idleness()
        acquisition.attempts += 1
        earlier = self._unconfirmed.pending(acquisition.name)
        if earlier is None:
            return self._acquiring.submit(acquisition)
        response: Response = asyncio.get_running_loop().create_future()
        earlier.add_done_callback(lambda _: self._submit_after(acquisition, response))
        return response

    def _submit_after(self, acquisition: Acquisition[Any], response: Response) -> None:
        if self.closed and not response.done():
            response.set_exception(_closed())
        elif not response.done():
            self._acquiring.submit_for(acquisition, response)

    async def _first_or_in_turn(self, acquisition: Acquisition[Any]) -> tuple[AcquireAnswer, float]:
        may_wait = acquisition.timeout != 0
        if acquisition.entry is None:  # it may be free: then nobody has to listen
            answer, sent_at = await self._ask(acquisition, resend=None if may_wait else 1)
            if answer.status == "granted":
                return answer, sent_at
            if not may_wait:
                raise TimeoutError
            self._enqueue(acquisition)
        return await self._in_turn(acquisition)

    async def _ask(self, acquisition: Acquisition[Any], resend: int | None = None) -> tuple[AcquireAnswer, float]:
        """With the same grant_id as often as it takes; `resend` times if that is given."""
        failures = 0
        while True:
            self._check_open()
            response = acquisition.response or self._submit(acquisition)
            acquisition.response = None
            try:
                answer, sent_at = await response
            except asyncio.CancelledError:
                if response.done() and not response.cancelled() and not response.exception():  # both came at once
                    self._deferred.give_back(acquisition, *response.result())
                raise
            except errors.StoreError as error:
                acquisition.last_error = error
                acquisition.in_doubt = acquisition.in_doubt or isinstance(error, UNKNOWN)
                await self._retry.wait_or_raise(error, failures, resend)
                failures += 1
            except Exception as error:
                acquisition.in_doubt = acquisition.in_doubt or is_unknown(error)
                raise
            else:
                self._retry.was_reached = True
                acquisition.last_error = None
                if self.closed:
                    self._deferred.give_back(acquisition, answer, sent_at)
                    raise _closed()
                return answer, sent_at

    def _enqueue(self, acquisition: Acquisition[Any]) -> None:
        acquisition.wait = True
        acquisition.entry = self._queue.enter(acquisition)

    def _leave(self, acquisition: Acquisition[Any]) -> None:
        if acquisition.entry is not None:
            self._queue.leave(acquisition.entry)
            acquisition.entry = None

    async def _first_of(
        self, whole: str, acquisitions: Sequence[Acquisition[G]]
    ) -> tuple[Acquisition[G], AcquireAnswer, float]:
        """The others leave their queues; what they were granted at the same moment is given back."""
        for acquisition in acquisitions:
            self._enqueue(acquisition)
        tasks = [(each, asyncio.create_task(self._in_turn(each, quiet=True))) for each in acquisitions]
        self._observer.waiting(whole, None)
        winner: Acquisition[G] | None = None
        try:
            await asyncio.wait([task for _, task in tasks], return_when=asyncio.FIRST_COMPLETED)
            acquisition, task = next(pair for pair in tasks if pair[1].done())
            answer, sent_at = task.result()
            winner = acquisition
            return acquisition, answer, sent_at
        finally:
            self._observer.stopped_waiting()
            for acquisition, task in tasks:
                if acquisition is not winner:
                    task.add_done_callback(partial(self._not_wanted, acquisition))
                    task.cancel()

    def _not_wanted(self, acquisition: Acquisition[Any], task: "asyncio.Task[tuple[AcquireAnswer, float]]") -> None:
        self._leave(acquisition)  # it may have ended before it began
        if not task.cancelled() and task.exception() is None:
            self._deferred.give_back(acquisition, *task.result())
        elif acquisition.in_doubt:
            self._deferred.find_out(acquisition)

    async def _in_turn(self, acquisition: Acquisition[Any], *, quiet: bool = False) -> tuple[AcquireAnswer, float]:
        """Ask, and as long as another has it, wait in the queue for it. `quiet`: observers hear of it from others."""
        assert acquisition.entry is not None
        waits = False
        try:
            while True:
                await self._subscribe()
                answer, sent_at = await self._ask(acquisition)
                if answer.status == "granted":
                    return answer, sent_at
                if quiet:
                    pass
                elif waits:
                    self._observer.still_waiting(acquisition.name, answer.holder, boottime() - acquisition.started)
                else:
                    self._observer.waiting(acquisition.name, answer.holder)
                    waits = True
                await self._queue.pause(acquisition.entry, answer)
                if taken := self._queue.taken(acquisition.entry, answer, sent_at):
                    self._check_open()
                    return taken, sent_at
        except BaseException:
            self._deferred.leaving.post(acquisition)
            raise
        finally:
            self._leave(acquisition)
            if waits:
                self._observer.stopped_waiting()

    def _check_open(self) -> None:
        if self.closed:
            raise _closed()

    async def _subscribe(self) -> None:
        if self._queue.is_subscribed:
            return
        try:
            await self._queue.subscribe()
        except PASSING as error:  # then it is asked for now and then, until the ear opens again
            self._observer.database_error(error)

    def _failed(self, acquisition: Acquisition[Any], error: BaseException) -> None:
        """However an acquire ends without an answer: it is counted, and what it may have left behind is looked for."""
        response, acquisition.response = acquisition.response, None
        if response is not None and not response.cancel() and not response.cancelled() and not response.exception():
            self._deferred.give_back(acquisition, *response.result())  # nobody had come to wait for it yet
        self._not_acquired(acquisition, _reason(error))

    def _not_acquired(self, acquisition: Acquisition[Any], reason: Reason, holder: str | None = None) -> None:
        self._observer.not_acquired(
            acquisition.name, boottime() - acquisition.started, acquisition.attempts, reason, holder
        )
        if acquisition.in_doubt:
            self._deferred.find_out(acquisition)

    def _granted(self, acquisition: Acquisition[G], answer: AcquireAnswer, sent_at: float) -> G:
        timing = acquisition.timing
        grant = acquisition.kind(self, acquisition.name, answer.token, acquisition.grant_id, timing, acquisition.owner)
        if answer.brief:
            grant.trusted_until = sent_at + answer.remaining - min(timing.margin, _BRIEF_MARGIN)
            grant.renew_at = grant.acquired_at + _BRIEFLY_HELD
        else:
            grant.trusted_until = sent_at + answer.remaining - timing.margin
            grant.renew_at = min(sent_at + timing.renew_every, grant.trusted_until)
        self._holdings.add((acquisition.owner, acquisition.name))
        self._renewals.add(grant)
        try:
            self._observer.granted(
                acquisition.name, answer.token, grant.acquired_at - acquisition.started, acquisition.attempts
            )
        except BaseException:  # a hook ends the thread: nobody will have it
            self.drop(grant)
            raise
        return grant

    def _lose(self, grant: AsyncGrant, why: Loss) -> None:
        if grant.finish(why):
            self._lose_finished(grant, why)

    def _lose_finished(self, grant: AsyncGrant, why: Loss) -> None:
        self._forget(grant)
        try:
            self._observer.lost(grant.name, grant.token, boottime() - grant.acquired_at, why, grant.broken_by)
        finally:
            grant.tell(why)

    def _forget(self, grant: AsyncGrant) -> None:
        self._renewals.remove(grant)
        self._holdings.discard((grant.owner, grant.name))

    def _before_each(self) -> None:
        self._check_open()
        self._watch_idleness()

    def _watch_idleness(self) -> None:
        if self._idle_timer is None and not self.closed:
            self._idle_timer = asyncio.get_running_loop().call_later(self._idle_after / 2, self._look_for_idleness)

    def _look_for_idleness(self) -> None:
        self._idle_timer = None
        if not self.closed:
            self._closing_idle = asyncio.get_running_loop().create_task(self._close_idle())

    async def _close_idle(self) -> None:
        """Who holds nothing and waits for nothing needs no connection."""
        await self._queue.unsubscribe()
        none_open = await self._store.close_idle(self._idle_after)
        if self.held or not none_open or not self._deferred.are_done:
            self._watch_idleness()


def _closed() -> errors.ConfigurationError:
    return errors.ConfigurationError("This Interlock was closed: open it anew.")


def _reason(error: BaseException) -> Reason:
    match error:
        case errors.LeaseTimeout():
            return "timeout"
        case asyncio.CancelledError():
            return "cancelled"
        case _:
            return "error"
