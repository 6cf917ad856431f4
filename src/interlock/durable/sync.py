"""Orchestrations for callers without an event loop: the same replica, on a loop thread of its own."""

from collections.abc import Coroutine, Sequence
from typing import Any, Generic, Self, TypeVar, Unpack

from interlock.bridge import LoopThread
from interlock.coordination.lease.times import Duration
from interlock.durable.database import fetch_value_sync
from interlock.durable.declarations import Orchestration, Orchestrations
from interlock.durable.replica import AsyncDurable, AsyncOrchestrationHandle, DurableOptions
from interlock.durable.requests import StartRequest, check_known
from interlock.durable.status import HistoryEvent, OrchestrationStatus
from interlock.errors import ConfigurationError

I = TypeVar("I")  # noqa: E741 # input and output
O = TypeVar("O")  # noqa: E741
T = TypeVar("T")


class OrchestrationHandle(Generic[O]):
    """An orchestration that was asked for."""

    def __init__(self, durable: "Durable", handle: AsyncOrchestrationHandle[O]) -> None:
        self.id = handle.id
        self._durable = durable
        self._handle = handle

    def wait(self, timeout: Duration | None = None) -> O:
        """Its result. Raises `OrchestrationFailed`, `OrchestrationCancelled`, or TimeoutError after so many seconds."""
        return self._durable.run(self._handle.wait(timeout))

    def status(self) -> OrchestrationStatus:
        return self._durable.status(self.id)

    def cancel(self, reason: str = "") -> None:
        self._durable.cancel(self.id, reason)


class Durable:
    """``with Durable(work) as durable:`` takes part in the work until the block ends, for any number of threads.

    As `AsyncDurable`, without await. Activities may be plain functions, and then run in threads.
    """

    def __init__(self, *parts: Orchestrations, **options: Unpack[DurableOptions]) -> None:
        self._durable = AsyncDurable(*parts, **options)
        self._thread: LoopThread | None = None

    def __enter__(self) -> Self:
        thread = LoopThread("interlock durable")
        try:
            thread.run(self._durable.__aenter__())
        except BaseException:
            thread.close()
            raise
        self._thread = thread
        return self

    def __exit__(self, *exc_info: object) -> None:
        thread, self._thread = self._thread, None
        assert thread is not None
        thread.close(self._durable.__aexit__)

    def start(
        self,
        orchestration: Orchestration[I, O],
        id: str,  # noqa: A002
        value: I,
        *,
        connection: Any = None,
    ) -> OrchestrationHandle[O]:
        """Have it run; `id` is yours to choose. The same again changes nothing; a different input is a conflict.

        With `connection` it is recorded in the transaction on that, in the calling thread, and started within seconds
        of its commit. Django's are named by their aliases: ``"default"``.
        """
        if connection is None:
            return OrchestrationHandle(self, self.run(self._durable.start(orchestration, id, value)))
        request = StartRequest(orchestration, id, value)
        request.is_new(fetch_value_sync(connection, self._durable.statements["record"], *request.args))
        return self.handle(orchestration, id)

    def handle(self, orchestration: Orchestration[Any, O], id: str) -> OrchestrationHandle[O]:  # noqa: A002
        """Of one that was asked for before."""
        return OrchestrationHandle(self, self._durable.handle(orchestration, id))

    def status(self, id: str) -> OrchestrationStatus:  # noqa: A002
        return self.run(self._durable.status(id))

    def list(self, prefix: str = "", *, unfinished: bool = False, limit: int = 100) -> Sequence[OrchestrationStatus]:
        """The newest first, of those whose ids begin so."""
        return self.run(self._durable.list(prefix, unfinished=unfinished, limit=limit))

    def history(self, id: str) -> Sequence[HistoryEvent]:  # noqa: A002
        return self.run(self._durable.history(id))

    def cancel(self, id: str, reason: str = "", *, connection: Any = None) -> None:  # noqa: A002
        """Have it cancelled, and cleaned up after; one that has ended stays as it is."""
        if connection is None:
            self.run(self._durable.cancel(id, reason))
        else:
            check_known(id, fetch_value_sync(connection, self._durable.statements["cancel"], id, reason))

    def begin(self, id: str) -> None:  # noqa: A002
        """Start what was recorded in a transaction that is committed: now, and not within seconds."""
        self.run(self._durable.begin(id))

    def send(self, id: str, event: str, value: Any) -> None:  # noqa: A002
        """An event for `Run.event`. It waits there until it is asked for."""
        self.run(self._durable.send(id, event, value))

    def prune(self, older_than: Duration) -> int:
        """Forget what ended longer ago. The answer is how many that were."""
        return self.run(self._durable.prune(older_than))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """On the loop thread."""
        if self._thread is None:
            coroutine.close()
            raise ConfigurationError("This is not open: ask inside the block, `with Durable(…) as durable:`.")
        return self._thread.run(coroutine)
