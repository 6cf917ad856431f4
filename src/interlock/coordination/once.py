"""Run once: the first call under a key runs, and its result is recorded; later calls are given that result.

Who may do what. Whoever finds no record queues for the key's lease, and looks again when it has it: so one runs, and
the others wait for it. The result is recorded only while that lease is held, which the same statement decides. When the
one that runs dies, or fails, the next in the queue runs.

What a crash leaves behind. Before the record: nothing that counts, so whatever the function had done by then is done
again by the next. After it: everything.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.coordination.grant import AsyncGrant
from interlock.coordination.lease import LeaseSettings
from interlock.coordination.name import part, whole_name
from interlock.coordination.timing import Duration
from interlock.errors import ConfigurationError, OnceConflict

if TYPE_CHECKING:
    from interlock.coordination.engine import Engine

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
    ) -> None:
        self.key = whole_name(key)
        self._name = part(key, _KIND)
        self._settings = LeaseSettings(self._name, ttl, None, request_timeout, None, own=True)
        self._request = None if request is None else _fingerprint(request)
        self._retention = retention

    async def run(
        self,
        engine: "Engine",
        owner: object,
        timeout: float | None,
        work: Callable[[AsyncGrant], Awaitable[Any]],
    ) -> Any:
        """The recorded result, or that of `work`, which is recorded then."""
        if self._retention:
            engine.require_forgetting()
        done = await self.result(engine)
        if done is None:
            async with await self._settings.acquire(engine, owner, timeout, AsyncGrant) as grant:
                done = await self.result(engine)
                if done is None:
                    done = (await self._run(engine, grant, work),)
        return done[0]

    async def result(self, engine: "Engine") -> tuple[Any] | None:
        """What was recorded, if something was."""
        record = await engine.read(self._name)
        if record is None:
            return None
        value = json.loads(record.value)
        if None not in (self._request, value["request"]) and self._request != value["request"]:
            raise OnceConflict(
                f"Something else was run under the key {self.key!r}, with other arguments: use another key for this.",
                key=self.key,
            )
        return (value["result"],)

    async def _run(self, engine: "Engine", grant: AsyncGrant, work: Callable[[AsyncGrant], Awaitable[Any]]) -> Any:
        """What JSON makes of the result, so that the first caller gets the same as all others."""
        value = self._as_json(await work(grant))
        await engine.write(self._name, value, grant)
        if self._retention:
            engine.forget_soon(*self._retention)
        return json.loads(value)["result"]

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
