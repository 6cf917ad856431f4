"""The environment of a scenario: the servers, the sizes of this run, and loads that are ended in any case."""

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks.equipment import ROOT, Equipment
from benchmarks.programs import Load, LoadFailed
from benchmarks.servers.dynalite import dynalite
from benchmarks.servers.etcd import etcd
from benchmarks.servers.postgres import Postgres, postgres
from benchmarks.servers.process import ServerFailed
from benchmarks.servers.redis import redis
from benchmarks.servers.snapshot import AgedDatabase, aged_database
from benchmarks.servers.zookeeper import zookeeper
from benchmarks.waiting import NotObserved


@dataclass(frozen=True)
class Size:
    """The sizes of a run: rounds and their seconds, killed holders, cycles on one name, age of the snapshot, the
    number of instances, and the seconds for which they are idle."""

    rounds: int
    seconds: float
    repeats: int
    churn: int
    snapshot_age: float
    rows: tuple[int, ...] = (10, 1_000, 1_000_000)
    waiters: tuple[int, ...] = (1, 100, 5_000)
    instances: int = 50
    idle: float = 30.0


FULL = Size(rounds=5, seconds=2, repeats=5, churn=4_000, snapshot_age=600)
QUICK = Size(rounds=2, seconds=0.6, repeats=2, churn=500, snapshot_age=0, instances=8, idle=5.0)


@dataclass(frozen=True)
class Contender:
    """A program of `benchmarks.loads` with its settings, and the libraries and servers that it needs."""

    program: str
    url: Callable[["Bench"], str]
    needs: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Bench:
    """One run. `not_measured` is the reason by contender, for the report."""

    equipment: Equipment
    size: Size
    directory: Path
    log: Callable[[str], None]
    not_measured: dict[str, str] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _logs: Iterator[int] = field(default_factory=itertools.count)

    @cached_property
    def postgres(self) -> Postgres:
        return self._stack.enter_context(postgres(self.directory / "postgresql"))

    @cached_property
    def database(self) -> str:
        """The URL of the database that most scenarios share."""
        return self.postgres.make_database("bench")

    @cached_property
    def aged(self) -> AgedDatabase:
        """Created first, so that its snapshot is nearly as old as the run when it is used."""
        return self._stack.enter_context(aged_database(self.postgres))

    @cached_property
    def durable_redis(self) -> str:
        return self._stack.enter_context(redis(self.directory / "redis-durable", durable=True))

    @cached_property
    def volatile_redis(self) -> str:
        return self._stack.enter_context(redis(self.directory / "redis-volatile", durable=False))

    @cached_property
    def dynalite(self) -> str:
        return self._stack.enter_context(dynalite(self.directory / "dynalite"))

    @cached_property
    def etcd(self) -> str:
        return self._stack.enter_context(etcd(self.directory / "etcd"))

    @cached_property
    def zookeeper(self) -> str:
        return self._stack.enter_context(zookeeper(self.directory / "zookeeper"))

    def close(self) -> None:
        self._stack.close()

    @contextmanager
    def loads(self, contender: Contender, count: int = 1, **settings: Any) -> Iterator[list[Load]]:
        """`count` processes of `contender`, warm and waiting for orders. Raises LoadFailed, ServerFailed."""
        python = self.equipment.python if contender.needs else Path(sys.executable)
        settings = {"url": contender.url(self), **contender.settings, **settings}
        loads: list[Load] = []
        try:
            for _ in range(count):
                log = self.directory / f"load-{next(self._logs)}.log"
                loads.append(Load(python, contender.program, settings, log))
            for load in loads:
                load.await_ready()
            yield loads
        finally:
            for load in loads:
                load.close()

    def can_measure(self, name: str, contender: Contender) -> bool:
        """True if everything that the contender needs is available. Otherwise the report names the reason."""
        if reason := self.equipment.lacks(*contender.needs):
            self.not_measured[name] = reason
        return not reason

    @contextmanager
    def tolerating(self, name: str) -> Iterator[None]:
        """A peer that fails is named in the report, and the run goes on."""
        try:
            yield
        except (LoadFailed, NotObserved, ServerFailed) as error:
            self.not_measured[name] = str(error).replace(str(ROOT), ".")
            self.log(f"  {name}: not measured: {error}")
