"""A crew of workers on a few leases, for tests that disturb them: the current holders, and the progress of all."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from typing import Any, Literal, NamedTuple, TypeVar

from support.histories import Violation, counts, violations
from support.history_recorder import Kind, recorded
from support.lease_watcher import watched
from support.lease_worker import LEDGER, Worker, ledger, workers
from support.postgres import execute
from support.waiting import eventually

_HELD = """
    SELECT pid, name, token, expires_at FROM interlock.lease WHERE grant_id IS NOT NULL AND expires_at > now()
"""
_NEXT = "SELECT acquired_at >= %s FROM interlock.lease WHERE name = %s AND token > %s"
_WRITTEN = "SELECT count(*) FROM ledger WHERE name = %s AND token > %s"
T = TypeVar("T")


class Held(NamedTuple):
    worker: Worker
    name: str
    token: int
    expires_at: datetime


@dataclass
class Crew:
    """`url` leads directly to the database; workers may use another URL."""

    url: str
    directory: Path
    names: list[str]
    ttl: float
    members: dict[str, Worker] = field(default_factory=dict)
    _killed: set[str] = field(default_factory=set)
    _stack: ExitStack = field(default_factory=ExitStack)
    _read: Counter[str] = field(default_factory=Counter)
    _granted: Counter[str] = field(default_factory=Counter)

    @property
    def living(self) -> list[str]:
        return [name for name, worker in self.members.items() if worker.is_alive]

    def hire(self, count: int = 1, *, url: str = "", **more: Any) -> list[str]:
        """Start so many more workers. Returns their names. For the other arguments see `Job`."""
        chosen: dict[str, Any] = {"names": self.names, "ttl": self.ttl} | more
        started = workers(url or self.url, self.directory, count=count, first=len(self.members), **chosen)
        hired = {worker.name: worker for worker in self._stack.enter_context(started)}
        self.members |= hired
        return list(hired)

    def replace(self, worker: Worker) -> None:
        """Start another worker for the same job."""
        job = asdict(worker.job)
        self.hire(**{key: value for key, value in job.items() if key not in ("directory", "process")})

    def grants(self) -> Counter[str]:
        """The number of grants of each worker so far."""
        for name in self.members:
            with suppress(FileNotFoundError), (self.directory / f"{name}.jsonl").open("rb") as noted:
                noted.seek(self._read[name])
                lines = noted.read().rpartition(b"\n")[0]
                self._read[name] += len(lines)
                self._granted[name] += lines.count(b'"granted"')
        return Counter(self._granted)

    def go_on(self, more: int, *, only: list[str] | None = None) -> None:
        """Return when each living worker has had so many more grants."""
        before = self.grants()
        names = only or self.living

        def missing() -> dict[str, int]:
            now = self.grants()
            return {name: missing for name in names if (missing := before[name] + more - now[name]) > 0}

        try:
            self.wait_for(lambda: not missing())
        except AssertionError:
            raise AssertionError(f"These were not granted a lease so many times more: {missing()}") from None

    def stop_a_holder(self, *, only: list[str] | None = None) -> Held:
        """Suspend a worker that holds a lease. Requests that it has sent before may still arrive."""
        held = self.wait_for(lambda: self._stopped_holder(only or self.living))
        assert held
        return held

    def stop_a_holder_until_it_has_a_successor(self, *, only: list[str] | None = None) -> None:
        """Suspend a worker that holds a lease, until the lease has expired and another worker has written under it."""
        while not self._is_succeeded(self.stop_a_holder(only=only)):
            pass

    def kill_a_holder(self) -> Held:
        held = self.stop_a_holder()
        self._killed.add(held.worker.name)
        held.worker.send(SIGKILL)
        held.worker.wait()
        return held

    def wait_for(self, look: Callable[[], T]) -> T:
        """The first true result of `look`. Fails if a worker ends unexpectedly."""
        return eventually(lambda: self._all_well() and look())

    def judge(self, *, calm: bool = False) -> tuple[list[Violation], Counter[Kind]]:
        """The violations in the records so far, and the number of events by kind."""
        events = recorded(self.directory)
        return violations(events, ledger(self.url), calm=calm), counts(events)

    def dismiss(self) -> None:
        """Stop all living workers, which have to end without errors."""
        living = self.living
        for name in living:
            self.members[name].send(SIGTERM)
        ends = {name: self.members[name].wait() for name in living}
        assert all(status == 0 and "Traceback" not in complaint for status, complaint in ends.values()), ends

    def _all_well(self) -> Literal[True]:
        for name, worker in self.members.items():
            if not worker.is_alive and name not in self._killed:
                raise RuntimeError(f"{name} ended by itself: {worker.wait()}")
        return True

    def _is_succeeded(self, held: Held) -> bool:
        """False if the worker had released the lease just before."""
        [[expired]] = self.wait_for(lambda: execute(self.url, _NEXT, held.expires_at, held.name, held.token))
        if expired:
            self.wait_for(lambda: execute(self.url, _WRITTEN, held.name, held.token)[0][0] > 0)
        held.worker.send(SIGCONT)
        return bool(expired)

    def _stopped_holder(self, names: list[str]) -> Held | None:
        by_pid = {self.members[name].pid: self.members[name] for name in names}
        for pid, name, token, _ in execute(self.url, _HELD):
            if worker := by_pid.get(pid):
                worker.send(SIGSTOP)
                for held in execute(self.url, _HELD):
                    if held[:3] == (pid, name, token):
                        return Held(worker, *held[1:])
                worker.send(SIGCONT)
        return None


@contextmanager
def crew(url: str, directory: Path, names: list[str], *, ttl: float = 1.0) -> Iterator[Crew]:
    """A crew without workers yet. The rows of the leases are watched."""
    execute(url, LEDGER)
    crew = Crew(url, directory, names, ttl)
    with crew._stack, watched(url, directory, names):
        yield crew
