"""What the engine calls when something happens to a lease: it counts, logs, and tells the user's hook.

It is on the way of every acquire and release, so while nobody listens it only counts: no event is made, no line
formatted, and the events' classes are not even imported. Nothing that a listener does may cost a lease: what goes wrong
in a hook or a log handler is counted and logged, and goes no further.

Levels. A service may acquire and release thousands of times a second, and losing a race is its daily life: that is
``debug``. What a person would want to have been told is ``info``: a wait of a second or more, its end, giving up after
waiting, a connection made again. A lost lease, or a renewal that failed, is a ``warning``.
"""

import inspect
import logging
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from interlock.coordination.lease.reasons import Loss, Reason
from interlock.coordination.observation.metrics import Metrics
from interlock.errors import ConfigurationError
from interlock.logs import events

if TYPE_CHECKING:
    from interlock.coordination.events import Event
    from interlock.stores.leases import BrokenBy

__all__ = ["Hook", "Observer"]

DEBUG, INFO, WARNING = logging.DEBUG, logging.INFO, logging.WARNING
NOTABLE = 1.0
"""Seconds of waiting from which on it is worth a line."""

log = events(__name__)
_logged = log.logger.isEnabledFor

Hook = Callable[["Event"], object]


class Observer:
    """Called by the engine, in its one thread.

    Each acquire ends once, `granted` or `not_acquired`; one that queues is `waiting` before, and has `stopped_waiting`
    whatever comes of it. Each grant ends once: `released`, `handed_over` or `lost`.
    """

    __slots__ = ("_hook", "metrics", "replica")

    def __init__(self, replica: str, on_event: Hook | None = None) -> None:
        _check(on_event)
        self.replica = replica
        self.metrics = Metrics()
        self._hook = on_event

    def granted(self, name: str, token: int, waited: float, attempts: int) -> None:
        metrics = self.metrics
        metrics.acquires["acquired"] += 1
        metrics.held += 1
        metrics.acquire_wait.observe(waited)
        metrics.acquire_attempts.observe(attempts)
        level = INFO if waited >= NOTABLE else DEBUG
        if self._hook is not None or _logged(level):
            from interlock.coordination.events import Acquired

            self._tell(level, Acquired(name, self.replica, token, waited, attempts))

    def waiting(self, name: str, holder: str | None, token: int | None = None) -> None:
        """An acquire found the lease taken, and queues. Once for each; then `stopped_waiting`."""
        self.metrics.waits += 1
        self.metrics.waiters += 1
        if self._hook is not None or _logged(DEBUG):
            from interlock.coordination.events import Waiting

            self._tell(DEBUG, Waiting(name, holder, token, self.replica, 0.0))

    def still_waiting(self, name: str, holder: str | None, waited: float, token: int | None = None) -> None:
        """It looked again, and the lease is taken still."""
        level = INFO if waited >= NOTABLE else DEBUG
        if self._hook is not None or _logged(level):
            from interlock.coordination.events import Waiting

            self._tell(level, Waiting(name, holder, token, self.replica, waited))

    def stopped_waiting(self) -> None:
        self.metrics.waiters -= 1

    def not_acquired(
        self,
        name: str,
        waited: float,
        attempts: int,
        reason: Reason,
        holder: str | None = None,
        token: int | None = None,
    ) -> None:
        self.metrics.acquires[reason] += 1
        level = INFO if reason == "timeout" else DEBUG  # the others are a result or an exception that the caller sees
        if self._hook is not None or _logged(level):
            from interlock.coordination.events import NotAcquired

            self._tell(level, NotAcquired(name, holder, token, self.replica, waited, attempts, reason))

    def released(self, name: str, token: int, held: float) -> None:
        metrics = self.metrics
        metrics.releases += 1
        metrics.held -= 1
        metrics.hold.observe(held)
        if self._hook is not None or _logged(DEBUG):
            from interlock.coordination.events import Released

            self._tell(DEBUG, Released(name, self.replica, token, held))

    def handed_over(self, name: str, token: int, held: float) -> None:
        metrics = self.metrics
        metrics.hand_overs += 1
        metrics.held -= 1
        metrics.hold.observe(held)
        if self._hook is not None or _logged(DEBUG):
            from interlock.coordination.events import HandedOver

            self._tell(DEBUG, HandedOver(name, self.replica, token, held))

    def lost(self, name: str, token: int, held: float, why: Loss, broken_by: "BrokenBy | None" = None) -> None:
        metrics = self.metrics
        metrics.losses[why] += 1
        metrics.held -= 1
        metrics.hold.observe(held)
        from interlock.coordination.events import Lost

        self._tell(WARNING, Lost(name, self.replica, token, held, why, *(broken_by or ())))

    def lost_after_release(self, name: str, token: int, why: Loss) -> None:
        """It had been given back, as everybody thought, and turns out to have been lost before that."""
        self.metrics.losses[why] += 1
        from interlock.coordination.events import Lost

        self._tell(WARNING, Lost(name, self.replica, token, 0.0, why))

    def renewed(self, count: int, seconds: float) -> None:
        metrics = self.metrics
        metrics.renewal_rounds["done"] += 1
        metrics.renewed_leases += count
        metrics.renewal_duration.observe(seconds)
        if self._hook is not None or _logged(DEBUG):
            from interlock.coordination.events import Renewed

            self._tell(DEBUG, Renewed(self.replica, count, seconds))

    def renewal_failed(self, error: Exception) -> None:
        self.metrics.renewal_rounds["failed"] += 1
        self.database_error(error)
        from interlock.coordination.events import RenewalFailed

        self._tell(WARNING, RenewalFailed(self.replica, error))

    def database_error(self, error: Exception) -> None:
        """Only counted: whoever asked gets the exception."""
        self.metrics.database_errors[type(error).__name__] += 1

    def reconnected(self, what: str) -> None:
        self.metrics.reconnects[what] += 1
        from interlock.coordination.events import Reconnected

        self._tell(INFO, Reconnected(self.replica, what))

    def _tell(self, level: int, event: "Event") -> None:
        try:
            if _logged(level):
                log.log(level, f"lease.{event.kind}", extra=event.facts())
            if self._hook is not None:
                self._hook(event)
        except (Exception, CancelledError):  # the latter comes out of a cancelled future, and would end our own task
            self._failed(event)

    def _failed(self, event: "Event") -> None:
        """A hook that always fails does so thousands of times a second: logged at the 1st, 2nd, 4th, 8th… time."""
        self.metrics.hook_errors += 1
        failures = self.metrics.hook_errors
        if failures & (failures - 1) == 0:
            with suppress(Exception):
                log.exception("lease.hook_failed", extra={"kind": event.kind, "failures": failures})


def _check(on_event: object) -> None:
    if on_event is None:
        return
    if not callable(on_event):
        raise ConfigurationError(f"on_event is {on_event!r}: give a function that takes an event.")
    if inspect.iscoroutinefunction(on_event) or inspect.iscoroutinefunction(type(on_event).__call__):
        raise ConfigurationError(
            "on_event is a coroutine function, which nobody would await: give a plain one, that for example puts "
            "the event into a queue."
        )
