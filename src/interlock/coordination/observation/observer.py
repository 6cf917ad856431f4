"""The engine's observer: it counts and logs what happens to leases, and calls the user's hook.

The observer runs in every acquire and release. So without a hook, or a log level that needs more, it only counts: it
makes no event, formats no line, and does not even import the classes of events. A hook must not cost a lease: an error
in a hook or a log handler is counted and logged, and goes no further.

Levels. A service may acquire and release thousands of times a second, and often finds a lease taken: these events are
``debug``. An operator wants to know of a wait of a second or more, a timeout, or a new connection: these events are
``info``. A lost lease and a failed renewal are a ``warning``.
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
"""Waits of at least so many seconds are logged as ``info``."""

log = events(__name__)
_logged = log.logger.isEnabledFor

Hook = Callable[["Event"], object]


class Observer:
    """The engine calls the observer in its one thread.

    Each acquire ends with one call, of `granted` or `not_acquired`. An acquire that waits in the queue calls `waiting`
    before that, and `stopped_waiting` in any case. Each grant ends with one call, of `released`, `handed_over` or
    `lost`.
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

            self._emit(level, Acquired(name, self.replica, token, waited, attempts))

    def waiting(self, name: str, holder: str | None, token: int | None = None) -> None:
        """An acquire found the lease taken, and waits. Called once for each wait; `stopped_waiting` follows."""
        self.metrics.waits += 1
        self.metrics.waiters += 1
        if self._hook is not None or _logged(DEBUG):
            from interlock.coordination.events import Waiting

            self._emit(DEBUG, Waiting(name, holder, token, self.replica, 0.0))

    def still_waiting(self, name: str, holder: str | None, waited: float, token: int | None = None) -> None:
        """A waiter requested the lease again, and the lease is still taken."""
        level = INFO if waited >= NOTABLE else DEBUG
        if self._hook is not None or _logged(level):
            from interlock.coordination.events import Waiting

            self._emit(level, Waiting(name, holder, token, self.replica, waited))

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
        level = INFO if reason == "timeout" else DEBUG  # the caller sees the others as a result or an exception
        if self._hook is not None or _logged(level):
            from interlock.coordination.events import NotAcquired

            self._emit(level, NotAcquired(name, holder, token, self.replica, waited, attempts, reason))

    def released(self, name: str, token: int, held: float) -> None:
        metrics = self.metrics
        metrics.releases += 1
        metrics.held -= 1
        metrics.hold.observe(held)
        if self._hook is not None or _logged(DEBUG):
            from interlock.coordination.events import Released

            self._emit(DEBUG, Released(name, self.replica, token, held))

    def handed_over(self, name: str, token: int, held: float) -> None:
        metrics = self.metrics
        metrics.hand_overs += 1
        metrics.held -= 1
        metrics.hold.observe(held)
        if self._hook is not None or _logged(DEBUG):
            from interlock.coordination.events import HandedOver

            self._emit(DEBUG, HandedOver(name, self.replica, token, held))

    def lost(self, name: str, token: int, held: float, why: Loss, broken_by: "BrokenBy | None" = None) -> None:
        metrics = self.metrics
        metrics.losses[why] += 1
        metrics.held -= 1
        metrics.hold.observe(held)
        from interlock.coordination.events import Lost

        self._emit(WARNING, Lost(name, self.replica, token, held, why, *(broken_by or ())))

    def lost_after_release(self, name: str, token: int, why: Loss) -> None:
        """A grant that was counted as released turns out to have been lost before its release."""
        self.metrics.losses[why] += 1
        from interlock.coordination.events import Lost

        self._emit(WARNING, Lost(name, self.replica, token, 0.0, why))

    def renewed(self, count: int, seconds: float) -> None:
        metrics = self.metrics
        metrics.renewal_rounds["done"] += 1
        metrics.renewed_leases += count
        metrics.renewal_duration.observe(seconds)
        if self._hook is not None or _logged(DEBUG):
            from interlock.coordination.events import Renewed

            self._emit(DEBUG, Renewed(self.replica, count, seconds))

    def renewal_failed(self, error: Exception) -> None:
        self.metrics.renewal_rounds["failed"] += 1
        self.database_error(error)
        from interlock.coordination.events import RenewalFailed

        self._emit(WARNING, RenewalFailed(self.replica, error))

    def database_error(self, error: Exception) -> None:
        """The error is only counted, because the caller gets it as an exception."""
        self.metrics.database_errors[type(error).__name__] += 1

    def reconnected(self, what: str) -> None:
        self.metrics.reconnects[what] += 1
        from interlock.coordination.events import Reconnected

        self._emit(INFO, Reconnected(self.replica, what))

    def _emit(self, level: int, event: "Event") -> None:
        try:
            if _logged(level):
                log.log(level, f"lease.{event.kind}", extra=event.facts())
            if self._hook is not None:
                self._hook(event)
        except (Exception, CancelledError):  # the latter comes from a cancelled future, and would end this task
            self._failed(event)

    def _failed(self, event: "Event") -> None:
        """A hook that always fails may do so thousands of times a second, so only its 1st, 2nd, 4th, 8th… failure is
        logged."""
        self.metrics.hook_errors += 1
        failures = self.metrics.hook_errors
        if failures & (failures - 1) == 0:
            with suppress(Exception):
                log.exception("lease.hook_failed", extra={"kind": event.kind, "failures": failures})


def _check(on_event: object) -> None:
    if on_event is None:
        return
    if not callable(on_event):
        raise ConfigurationError(
            f"on_event is {on_event!r}, which is not a function: give a function that takes an event."
        )
    if inspect.iscoroutinefunction(on_event) or inspect.iscoroutinefunction(type(on_event).__call__):
        raise ConfigurationError(
            "on_event is a coroutine function, which would never be awaited: give a plain function, for example one "
            "that "
            "puts the event into a queue."
        )
