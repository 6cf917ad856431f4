"""Run once: the first call under a key runs, and its result is recorded; later calls are given that result.

Who may do what. Whoever finds no record queues for the key's lease, and looks again when it has it: so one runs, and
the others wait for it. The result is recorded only while that lease is held, which the same statement decides. When the
one that runs dies, or fails, the next in the queue runs.

What a crash leaves behind. Before the record: nothing that counts, so whatever the function had done by then is done
again by the next; or, for what must not be done again unseen, a note that it was begun, and the next raises. After it:
everything. With a connection of the user's, the record is part of the transaction that the function writes in: then
there is no such moment between the two. The lease may be given back before that transaction ends, because its row is
locked by it: whoever is next comes after it, and finds the record, or runs.
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
"""What to do where it was begun, and nobody knows whether it was done."""

LARGEST_RESULT = 256 * 1024
"""Of what is recorded, as JSON."""
_KIND = "once"


class Retention(NamedTuple):
    """What was recorded under keys that begin so is deleted once it is so many seconds old, or some time later."""

    prefix: str
    seconds: float


class Once:
    """A key, and what is to be done under it. `request` is what makes two calls the same; None: the key alone."""

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
        inside: "UserTransaction | None" = None,
    ) -> Any:
        """The recorded result, or that of `work`, which is recorded then; `inside` the user's transaction, if given."""
        if self._retention:
            engine.records.require_forgetting()
        done = self._judged(await inside.read(self._name)) if inside else await self.result(engine)
        if done is None:
            async with await self._settings.acquire(engine, owner, timeout, AsyncGrant) as grant:
                done = await self.result(engine)
                if done is None:
                    result = await (self._run_inside(inside, grant, work) if inside else self._run(engine, grant, work))
                    log.info("once.done", extra={"key": self.key})
                    return result
        log.info("once.replayed", extra={"key": self.key})
        return done[0]

    async def result(self, engine: "Engine") -> tuple[Any] | None:
        """What was recorded, if something was."""
        record = await engine.records.read(self._name)
        return self._judged(None if record is None else record.value)

    def _judged(self, recorded: str | None) -> tuple[Any] | None:
        value = {} if recorded is None else json.loads(recorded)
        begun, done = value.get("begun", False), "result" in value
        if (begun or done) and None not in (self._request, value["request"]) and self._request != value["request"]:
            raise OnceConflict(
                f"Something else was run under the key {self.key!r}, with other arguments: use another key for this.",
                key=self.key,
            )
        return (value["result"],) if done else None

    async def _run(self, engine: "Engine", grant: AsyncGrant, work: Callable[[AsyncGrant], Awaitable[Any]]) -> Any:
        """What JSON makes of the result, so that the first caller gets the same as all others."""
        if self._unfinished == "raise":
            await self._begin(engine, grant)
        try:
            result = await work(grant)
        except Exception:
            await self._note_failure(engine, grant)
            raise
        value = self._as_json(result)
        await engine.records.write(self._name, value, grant)
        if self._retention:
            engine.records.forget_soon(*self._retention)
        return json.loads(value)["result"]

    async def _run_inside(
        self, inside: "UserTransaction", grant: AsyncGrant, work: Callable[[AsyncGrant], Awaitable[Any]]
    ) -> Any:
        value = self._as_json(await work(grant))
        grant.check()
        if not await inside.write(self._name, value, grant):
            raise grant.error()
        return json.loads(value)["result"]

    async def _begin(self, engine: "Engine", grant: AsyncGrant) -> None:
        """Nobody else is at it: we have the lease. So whoever began it and did not end it is gone."""
        record = await engine.records.read(self._name)
        if record is not None and json.loads(record.value).get("begun"):
            raise OnceInterrupted(
                f"What is run under the key {self.key!r} was begun, and whoever ran it was gone before it could say "
                "whether it was done: look, and then run it with unfinished='again', or use another key.",
                key=self.key,
            )
        await engine.records.write(self._name, json.dumps({"request": self._request, "begun": True}), grant)

    async def _note_failure(self, engine: "Engine", grant: AsyncGrant) -> None:
        """It failed before our eyes: that is known. If we cannot write it down any more, it stays unknown."""
        if self._unfinished == "raise":
            with suppress(InterlockError):
                await engine.records.write(self._name, json.dumps({"request": self._request, "begun": False}), grant)

    def _as_json(self, result: Any) -> str:
        try:
            value = json.dumps({"request": self._request, "result": result}, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"What was run under the key {self.key!r} is done, but its result cannot be recorded: {error}. "
                "Let it return something that can be written as JSON; until then it is run again each time."
            ) from error
        if len(value) > LARGEST_RESULT:
            raise ConfigurationError(
                f"What was run under the key {self.key!r} is done, but its result has {len(value)} bytes as JSON: "
                f"{LARGEST_RESULT} can be recorded. Let it return where the result is; until then it is run again."
            )
        return value


def _fingerprint(request: Sequence[Any]) -> str:
    try:
        text = json.dumps(request, sort_keys=True, allow_nan=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            "What is run once has to be given arguments that can be written as JSON, so that a different call under "
            f"the same key is noticed: {error}."
        ) from error
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
