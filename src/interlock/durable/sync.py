"""Orchestrations for callers without an event loop: a replica whose event loop runs in a thread of its own."""

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
    """An orchestration that was requested."""

    def __init__(self, durable: "Durable", handle: AsyncOrchestrationHandle[O]) -> None:
        self.id = handle.id
        self._durable = durable
        self._handle = handle

    def wait(self, timeout: Duration | None = None) -> O:
        """Wait for the orchestration's result.

        Raises `OrchestrationFailed`, `OrchestrationCancelled`, or TimeoutError.
        """
        return self._durable.run(self._handle.wait(timeout))

    def status(self) -> OrchestrationStatus:
        return self._durable.status(self.id)

    def cancel(self, reason: str = "") -> None:
        self._durable.cancel(self.id, reason)


class Durable:
    """``with Durable(work) as durable:`` runs activities and orchestrations until the block ends, for callers in any
    thread.

    It works like `AsyncDurable`, with blocking methods. Activities may be plain functions, which run in threads.
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
        """Start an orchestration under an `id` of your choice.

        A repetition with the same input changes nothing; with a different input it raises `OrchestrationConflict`. With
        `connection`, the request is made in the calling thread as part of the transaction on that connection, and the
        orchestration starts within seconds of the commit. For a Django connection, pass its alias: ``"default"``.
        """
        if connection is None:
            return OrchestrationHandle(self, self.run(self._durable.start(orchestration, id, value)))
        request = StartRequest(orchestration, id, value)
        request.is_new(fetch_value_sync(connection, self._durable.statements["record"], *request.args))
        return self.handle(orchestration, id)

    def handle(self, orchestration: Orchestration[Any, O], id: str) -> OrchestrationHandle[O]:  # noqa: A002
        """Returns the handle of an orchestration that was requested before."""
        return OrchestrationHandle(self, self._durable.handle(orchestration, id))

    def status(self, id: str) -> OrchestrationStatus:  # noqa: A002
        return self.run(self._durable.status(id))

    def list(self, prefix: str = "", *, unfinished: bool = False, limit: int = 100) -> Sequence[OrchestrationStatus]:
        """Returns the orchestrations whose ids begin with `prefix`, the newest first."""
        return self.run(self._durable.list(prefix, unfinished=unfinished, limit=limit))

    def history(self, id: str) -> Sequence[HistoryEvent]:  # noqa: A002
        return self.run(self._durable.history(id))

    def cancel(self, id: str, reason: str = "", *, connection: Any = None) -> None:  # noqa: A002
        """Cancel an orchestration; its clean-up runs afterwards. An orchestration that has ended stays as it is."""
        if connection is None:
            self.run(self._durable.cancel(id, reason))
        else:
            check_known(id, fetch_value_sync(connection, self._durable.statements["cancel"], id, reason))

    def begin(self, id: str) -> None:  # noqa: A002
        """Start a recorded orchestration at once, after the commit. Otherwise it starts within seconds."""
        self.run(self._durable.begin(id))

    def send(self, id: str, event: str, value: Any) -> None:  # noqa: A002
        """Send an event for `Run.event`. The event is kept until the orchestration reads it."""
        self.run(self._durable.send(id, event, value))

    def prune(self, older_than: Duration) -> int:
        """Delete orchestrations that ended longer than `older_than` ago.

        Returns the number of deleted orchestrations.
        """
        return self.run(self._durable.prune(older_than))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop thread."""
        if self._thread is None:
            coroutine.close()
            raise ConfigurationError("Durable is not open: use it inside the block `with Durable(…) as durable:`.")
        return self._thread.run(coroutine)
