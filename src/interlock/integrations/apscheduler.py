"""APScheduler in every replica, where only the leader fires jobs; see docs/how-to/schedulers.md.

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
    raise ConfigurationError(
        "interlock.integrations.apscheduler needs the package APScheduler: pip install 'apscheduler>=3.11,<4'."
    ) from error

log = events(__name__)

_RETRY = 1.0
_TICK = timedelta(microseconds=1)


class Led(BaseScheduler):  # type: ignore[misc] # APScheduler has no types
    """A base class to put before a scheduler class of APScheduler 3. The lease `name` has to be equal in all replicas.

    Before the leader fires the jobs that are due, it records the current moment. The next leader continues from that
    moment: APScheduler decides by `misfire_grace_time` and `coalesce` about jobs that were due later.
    """

    def __init__(
        self, *args: Any, locks: Interlock, name: str = "apscheduler", ttl: Duration = 15.0, **options: Any
    ) -> None:
        self._locks = locks
        self._leadership = Leadership(locks, name, ttl, on_elected=self.wakeup)
        self._caught_up_term: LedTerm | None = None
        self._recorded_until = datetime.min.replace(tzinfo=UTC)
        self._is_firing = False
        super().__init__(*args, **options)
        self.add_listener(lambda event: self._leadership.start(), EVENT_SCHEDULER_STARTED)
        # The event comes after the running jobs have ended, if `shutdown` waits for them.
        self.add_listener(lambda event: self._leadership.stop(), EVENT_SCHEDULER_SHUTDOWN)

    @property
    def term(self) -> Term | None:
        """The current term, with the token and the guard for a job; None if this replica does not lead."""
        return self._leadership.term

    def start(self, *args: Any, **options: Any) -> None:
        """Raises an InterlockError if the database cannot be used."""
        self._locks.open()
        super().start(*args, **options)

    def add_jobstore(self, jobstore: Any, alias: str = "default", **options: Any) -> None:
        super().add_jobstore(jobstore, alias, **options)
        store = self._jobstores[alias]
        due = store.get_due_jobs
        # A job that became due while the moment was being recorded is fired in the next round, under a later moment.
        store.get_due_jobs = lambda now: due(min(now, self._recorded_until))

    def _process_jobs(self) -> float | None:
        """Fire the jobs that are due. Returns the seconds until the next round; None to wait for `wakeup`."""
        term = self._leadership.term
        if term is not None and self.state == STATE_RUNNING:
            try:
                if self._caught_up_term is not term:
                    self._catch_up()
                    self._caught_up_term = term
                moment = datetime.now(UTC)
                self._leadership.write(term, moment.timestamp())
                self._recorded_until = moment
            except LeaseLost:
                return None
            except InterlockError as error:
                log.warning("apscheduler.held_up", extra={"why": str(error)})
                return _RETRY
            if self._leadership.term is not term:  # this process was suspended meanwhile, and another replica leads
                return None
            return self._fire()
        return None

    def _fire(self) -> float | None:
        self._is_firing = True
        try:
            wait: float | None = super()._process_jobs()
        finally:
            self._is_firing = False
        return wait

    def remove_job(self, job_id: str, jobstore: str | None = None) -> None:
        """A scheduler that is shut down while it fires still fires all due jobs, because they are recorded as fired.

        APScheduler then removes jobs that were fired for the last time, and does not find them. The resulting error is
        ignored; `_catch_up` removes such jobs.
        """
        try:
            super().remove_job(job_id, jobstore)
        except JobLookupError:
            if not (self._is_firing and self.state == STATE_STOPPED):
                raise

    def _catch_up(self) -> None:
        """Move jobs that the previous leader has fired to their next time, and remove the jobs without a next time."""
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
