"""Celery beat in every replica, where only the leader sends tasks; see docs/how-to/schedulers.md.

::

    app.conf.beat_scheduler = "interlock.integrations.celery:LedScheduler"
    app.conf.interlock_beat_lease = "beat of the shop"
"""

from copy import copy
from datetime import datetime
from typing import Any

from interlock.coordination.sync.root import Interlock
from interlock.errors import ConfigurationError, InterlockError, LeaseLost
from interlock.integrations.leadership import Leadership, LedTerm
from interlock.logs import events

try:
    from celery.beat import Scheduler
except ModuleNotFoundError as error:
    raise ConfigurationError("interlock.integrations.celery needs the package Celery: pip install celery.") from error

log = events(__name__)

HEADER = "interlock_token"
"""The header in a task's message with the token of the term in which the message was sent."""

_RETRY = 1.0


class LedScheduler(Scheduler):  # type: ignore[misc] # Celery has no types
    """Celery calls `tick` repeatedly. In a replica that does not lead, `tick` waits.

    The leader records when each entry was last sent before it sends the entry again, and the next leader continues from
    that record. No connection is opened before the first tick, because beat also creates schedulers only to read them.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._locks: Interlock | None = None
        self._leadership: Leadership | None = None
        self._led: LedTerm | None = None
        super().__init__(*args, **options)

    def tick(self, *args: Any, **options: Any) -> float:
        """Send one task that is due. Returns the seconds until the next call."""
        leadership = self._leadership or self._begin()
        term = leadership.term if leadership.wait(_RETRY) else None
        if term is None:
            return 0.0
        try:
            if self._led is not term:
                self._catch_up(leadership, term)
            wait: float = super().tick(*args, **options)
            return wait
        except LeaseLost:
            self._led = None
            return 0.0
        except InterlockError as error:
            log.warning("celery.held_up", extra={"why": str(error)})
            self._led = None
            return _RETRY

    def reserve(self, entry: Any) -> Any:
        """Record that the entry is sent now. Celery calls this method just before it sends the entry's task."""
        if self._leadership is not None and self._led is not None:
            self._leadership.write(self._led, self._last_sent() | {entry.name: entry.default_now().timestamp()})
        return super().reserve(entry)

    def apply_async(self, entry: Any, *args: Any, **options: Any) -> Any:
        if self._led is not None:
            entry = copy(entry)
            headers = entry.options.get("headers") or {}
            entry.options = {**entry.options, "headers": {**headers, HEADER: self._led.token}}
        return super().apply_async(entry, *args, **options)

    def close(self) -> None:
        """Release the leadership to another replica."""
        super().close()
        leadership, self._leadership = self._leadership, None
        locks, self._locks = self._locks, None
        if leadership is not None:
            leadership.stop()
        if locks is not None:
            locks.close()

    @property
    def info(self) -> str:
        return f"    . lease -> {self._name}"

    @property
    def _name(self) -> str:
        name: str = self.app.conf.get("interlock_beat_lease", "celery beat")
        return name

    def _begin(self) -> Leadership:
        self._locks = Interlock(self.app.conf.get("interlock_database_url"))
        leadership = Leadership(self._locks, self._name, self.app.conf.get("interlock_beat_ttl", 15.0))
        leadership.start()
        self._leadership = leadership
        return leadership

    def _catch_up(self, leadership: Leadership, term: LedTerm) -> None:
        """Take over the times at which previous leaders sent each entry, and record them for the next leader."""
        sent: dict[str, float] = leadership.read() or {}
        for name, entry in self.schedule.items():
            if name in sent:
                entry.last_run_at = datetime.fromtimestamp(sent[name], entry.default_now().tzinfo)
        leadership.write(term, self._last_sent())
        self._heap = None
        self._led = term

    def _last_sent(self) -> dict[str, float]:
        """Returns when each entry was last sent; for an entry that was never sent, the time of its first appearance."""
        return {name: entry.last_run_at.timestamp() for name, entry in self.schedule.items()}
