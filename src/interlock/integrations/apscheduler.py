"""APScheduler in every replica, of which one fires; see docs/how-to/schedulers.md.

::

    from apscheduler.schedulers.background import BackgroundScheduler
    from interlock.integrations.apscheduler import Led

    class Scheduler(Led, BackgroundScheduler):
        pass

    scheduler = Scheduler(locks=Interlock(), name="nightly")
    scheduler.start()
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from interlock.coordination.lease.times import Duration
from interlock.coordination.sync.election import Term
from interlock.coordination.sync.root import Interlock
from interlock.errors import ConfigurationError, InterlockError, LeaseLost
from interlock.integrations.leadership import Leadership, LedTerm
from interlock.logs import events

try:
    from apscheduler.events import EVENT_SCHEDULER_SHUTDOWN, EVENT_SCHEDULER_STARTED
    from apscheduler.jobstores.base import JobLookupError
    from apscheduler.schedulers.base import STATE_RUNNING, STATE_STOPPED, BaseScheduler
except ModuleNotFoundError as error:
    raise ConfigurationError("This needs the package APScheduler: pip install 'apscheduler>=3.11,<4'.") from error

log = events(__name__)

_RETRY = 1.0
_TICK = timedelta(microseconds=1)


class Led(BaseScheduler):  # type: ignore[misc] # which has no types
    """To be put before a scheduler class of APScheduler 3. `name` is that of the lease, the same in all replicas.

    Before the leader fires what is due, it remembers that moment. Whoever leads next goes on from there: what was due
    later is APScheduler's to judge, by `misfire_grace_time` and `coalesce`.
    """

    def __init__(
        self, *args: Any, locks: Interlock, name: str = "apscheduler", ttl: Duration = 15.0, **options: Any
    ) -> None:
        self._locks = locks
        self._leadership = Leadership(locks, name, ttl, on_elected=self.wakeup)
        self._caught_up: LedTerm | None = None
        self._remembered = datetime.min.replace(tzinfo=UTC)
        self._fires = False
        super().__init__(*args, **options)
        self.add_listener(lambda event: self._leadership.start(), EVENT_SCHEDULER_STARTED)
        # It comes when the jobs that were under way have ended, if they were waited for.
        self.add_listener(lambda event: self._leadership.stop(), EVENT_SCHEDULER_SHUTDOWN)

    @property
    def term(self) -> Term | None:
        """What we lead by, for a job to take its token and its guard from. None: we do not lead."""
        return self._leadership.term

    def start(self, *args: Any, **options: Any) -> None:
        """Raises what is wrong with the database."""
        self._locks.open()
        super().start(*args, **options)

    def add_jobstore(self, jobstore: Any, alias: str = "default", **options: Any) -> None:
        super().add_jobstore(jobstore, alias, **options)
        store = self._jobstores[alias]
        due = store.get_due_jobs
        # What became due while the moment was being written has its turn in the next round, under a later one.
        store.get_due_jobs = lambda now: due(min(now, self._remembered))

    def _process_jobs(self) -> float | None:
        """Fires what is due. The answer is when to come again; None: when we are woken."""
        term = self._leadership.term
        if term is not None and self.state == STATE_RUNNING:
            try:
                if self._caught_up is not term:
                    self._catch_up()
                    self._caught_up = term
                moment = datetime.now(UTC)
                self._leadership.write(term, moment.timestamp())
                self._remembered = moment
            except LeaseLost:
                return None
            except InterlockError as error:
                log.warning("apscheduler.held_up", extra={"why": str(error)})
                return _RETRY
            if self._leadership.term is not term:  # we stood still meanwhile, and another leads
                return None
            return self._fire()
        return None

    def _fire(self) -> float | None:
        self._fires = True
        try:
            wait: float | None = super()._process_jobs()
        finally:
            self._fires = False
        return wait

    def remove_job(self, job_id: str, jobstore: str | None = None) -> None:
        """Who is shut down while it fires still fires all that is due: it is remembered, so nobody else would.

        APScheduler removes what was fired for the last time, and does not find it any more then. `_catch_up` does.
        """
        try:
            super().remove_job(job_id, jobstore)
        except JobLookupError:
            if not (self._fires and self.state == STATE_STOPPED):
                raise

    def _catch_up(self) -> None:
        """Jobs whose turn was when another led have been fired by it."""
        fired = self._leadership.read()
        if fired is None:
            return
        moment = datetime.fromtimestamp(fired, self.timezone)
        for job in self.get_jobs():
            if job.next_run_time is not None and job.next_run_time <= moment:
                following = job.trigger.get_next_fire_time(None, moment + _TICK)
                if following is None or following <= moment:
                    job.remove()
                else:
                    job.modify(next_run_time=following)
