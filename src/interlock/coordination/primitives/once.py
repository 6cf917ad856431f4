"""Run once: the first call under a key runs the function, and its result is recorded; later calls get that result.

**Order.** A caller that finds no record waits in the queue for the key's lease, and reads the record again when it has
the lease. So one caller runs the function, and the others wait for it. The result is recorded only while the caller
holds that lease; one statement checks the lease and writes the record. If the running caller dies or fails, the next
caller in the queue runs the function.

**After a crash.** Before the record is written, the run does not count: the next caller runs the function again, with
all its effects. With `unfinished="raise"`, a record of the start remains instead, and the next caller raises. After the
record is written, the run counts. With the user's connection, the record is part of the transaction in which the
function writes, so both are committed at the same moment. The lease may be released before that transaction ends,
because the transaction locks the lease's row: the next caller gets the lease only after the transaction, and then finds
the record, or runs the function.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.lease import LeaseSettings
from interlock.coordination.lease.name import part, whole_name
from interlock.coordination.lease.times import Duration
from interlock.errors import ConfigurationError, InterlockError, OnceConflict, OnceInterrupted
from interlock.logs import events

if TYPE_CHECKING:
    from interlock.coordination.engine.engine import Engine
    from interlock.coordination.primitives.user_records import UserTransaction

log = events(__name__)

Unfinished = Literal["again", "raise"]
"""The choice for a run that was begun and may or may not have finished: run the function again, or raise."""

LARGEST_RESULT = 256 * 1024
"""The largest result that can be recorded, in bytes of JSON."""
_KIND = "once"


class Retention(NamedTuple):
    """Records whose keys begin with `prefix` are deleted once they are `seconds` old, or some time later."""

    prefix: str
    seconds: float


class Once:
    """A key and its settings. Two calls are the same if their `request` is the same; if `request` is None, the key
    alone decides."""

    def __init__(
        self,
        key: str,
        ttl: Duration,
        request_timeout: float | None,
        request: Sequence[Any] | None = None,
        retention: Retention | None = None,
        unfinished: Unfinished = "again",
    ) -> None:
        if unfinished not in get_args(Unfinished):
            raise ConfigurationError(f"unfinished={unfinished!r}: use 'again' or 'raise'.")
        self.key = whole_name(key)
        self._name = part(key, _KIND)
        self._settings = LeaseSettings(self._name, ttl, None, request_timeout, None, own=True)
        self._request = None if request is None else _fingerprint(request)
        self._retention = retention
        self._unfinished = unfinished

    async def run(
        self,
        engine: "Engine",
        owner: object,
        timeout: float | None,
        work: Callable[[AsyncGrant], Awaitable[Any]],
        transaction: "UserTransaction | None" = None,
    ) -> Any:
        """Returns the recorded result. If there is no record, runs `work` and records its result, in the user's
        `transaction` if one is given."""
        if self._retention:
            engine.records.require_record_deletion()
        recorded = self._checked(await transaction.read(self._name)) if transaction else await self.result(engine)
        if recorded is None:
            async with await self._settings.acquire(engine, owner, timeout, AsyncGrant) as grant:
                recorded = await self.result(engine)
                if recorded is None:
                    result = await (
                        self._run_in_transaction(transaction, grant, work)
                        if transaction
                        else self._run(engine, grant, work)
                    )
                    log.info("once.done", extra={"key": self.key})
                    return result
        log.info("once.replayed", extra={"key": self.key})
        return recorded[0]

    async def result(self, engine: "Engine") -> tuple[Any] | None:
        """Returns the recorded result in a tuple, or None if no result is recorded."""
        record = await engine.records.read(self._name)
        return self._checked(None if record is None else record.value)

    def _checked(self, record: str | None) -> tuple[Any] | None:
        value = {} if record is None else json.loads(record)
        begun, done = value.get("begun", False), "result" in value
        if (begun or done) and None not in (self._request, value["request"]) and self._request != value["request"]:
            raise OnceConflict(
                f"A call with other arguments was already run under the key {self.key!r}: use another key for this "
                "call.",
                key=self.key,
            )
        return (value["result"],) if done else None

    async def _run(self, engine: "Engine", grant: AsyncGrant, work: Callable[[AsyncGrant], Awaitable[Any]]) -> Any:
        """Runs `work`, records its result, and returns the result as read back from JSON, so that the first caller gets
        the same value as all others."""
        if self._unfinished == "raise":
            await self._record_start(engine, grant)
        try:
            result = await work(grant)
        except Exception:
            await self._record_failure(engine, grant)
            raise
        value = self._as_json(result)
        await engine.records.write(self._name, value, grant)
        if self._retention:
            engine.records.delete_old_soon(*self._retention)
        return json.loads(value)["result"]

    async def _run_in_transaction(
        self, transaction: "UserTransaction", grant: AsyncGrant, work: Callable[[AsyncGrant], Awaitable[Any]]
    ) -> Any:
        value = self._as_json(await work(grant))
        grant.check()
        if not await transaction.write(self._name, value, grant):
            raise grant.error()
        return json.loads(value)["result"]

    async def _record_start(self, engine: "Engine", grant: AsyncGrant) -> None:
        """Record the start of the run. The caller has to hold the lease, so the process of an earlier run without an
        end is dead."""
        record = await engine.records.read(self._name)
        if record is not None and json.loads(record.value).get("begun"):
            raise OnceInterrupted(
                f"The run under the key {self.key!r} was begun, and its process ended before it could record a result: "
                "check if the work was done; then run it with unfinished='again', or use another key.",
                key=self.key,
            )
        await engine.records.write(self._name, json.dumps({"request": self._request, "begun": True}), grant)

    async def _record_failure(self, engine: "Engine", grant: AsyncGrant) -> None:
        """Record that the run has failed, so that another call may run it again. If this record cannot be written, the
        run stays unfinished."""
        if self._unfinished == "raise":
            with suppress(InterlockError):
                await engine.records.write(self._name, json.dumps({"request": self._request, "begun": False}), grant)

    @property
    def _repetition(self) -> str:
        return "runs it again" if self._unfinished == "again" else "raises OnceInterrupted"

    def _as_json(self, result: Any) -> str:
        try:
            value = json.dumps({"request": self._request, "result": result}, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"The function ran under the key {self.key!r}, but its result cannot be recorded: {error}. "
                f"Let it return a value that can be written as JSON; until then each call {self._repetition}."
            ) from error
        if len(value) > LARGEST_RESULT:
            raise ConfigurationError(
                f"The function ran under the key {self.key!r}, but its result has {len(value)} bytes as JSON, and at "
                f"most {LARGEST_RESULT} can be recorded. Let it return a reference to the result; until then each call "
                f"{self._repetition}."
            )
        return value


def _fingerprint(request: Sequence[Any]) -> str:
    try:
        text = json.dumps(request, sort_keys=True, allow_nan=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            "once() needs arguments that can be written as JSON, so that it recognises a different call under the same "
            f"key: {error}. Pass plain values instead."
        ) from error
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
