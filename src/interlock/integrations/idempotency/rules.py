"""How requests under a key are treated, whatever the framework; and the treatment."""

import hashlib
import json
import math
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

from interlock.coordination.engine.engine import Engine
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.times import Duration, LeaseTiming, checked_timeout, seconds
from interlock.coordination.primitives.once import Once, Retention
from interlock.coordination.root import AsyncInterlock
from interlock.coordination.sync.root import Interlock
from interlock.errors import ConfigurationError, InterlockError, LeaseTimeout, OnceConflict
from interlock.integrations.idempotency import problems
from interlock.integrations.idempotency.answer import LARGEST, Answer, packed, unpacked
from interlock.logs import events

log = events(__name__)

HEADER = "Idempotency-Key"
REPLAYED = ("Idempotency-Replayed", "true")
_PREFIX = "idempotency:"
_LATER = frozenset({408, 425, 429})


def is_final(status: int) -> bool:
    """Whether the same request would be answered so again. Failures of ours, and "try later", are not."""
    return status < 500 and status not in _LATER


class RuleOptions(TypedDict, total=False):
    """See `Rules`."""

    methods: Collection[str]
    required: bool
    wait: Duration
    ttl: Duration
    keep_for: Duration | None
    keep: Callable[[int], bool]
    largest_request: int
    largest_answer: int


@dataclass(frozen=True)
class Rules:
    """`methods` are those that a key counts for, and `required` says that they may not come without.

    `wait` is how long a duplicate waits for the first; 0 is not at all. `keep_for` is how long answers are kept, at
    least; None is for ever. `keep` says by its status which answer is kept. `ttl` is the lease's: when whoever carries
    out a request is killed, a retry has to wait so long. The largest ones are in bytes.
    """

    methods: Collection[str] = ("POST", "PATCH")
    required: bool = False
    wait: Duration = 10.0
    ttl: Duration = 30.0
    keep_for: Duration | None = 86400.0
    keep: Callable[[int], bool] = is_final
    largest_request: int = 1024 * 1024
    largest_answer: int = LARGEST

    def __post_init__(self) -> None:
        if isinstance(self.methods, str) or not all(isinstance(method, str) for method in self.methods):
            raise ConfigurationError(f"methods={self.methods!r}: give several, such as ('POST', 'PATCH').")
        if self.wait is None or checked_timeout(self.wait) == math.inf:
            raise ConfigurationError("wait has to have an end: give a number of seconds, 0 for not at all.")
        if self.keep_for is not None and not 0 < seconds(self.keep_for) < math.inf:
            raise ConfigurationError(f"keep_for={self.keep_for!r}: give a number of seconds above 0, or None.")
        if not callable(self.keep):
            raise ConfigurationError("keep has to be a function that is given a status and says whether it is kept.")
        if not 0 <= self.largest_answer <= LARGEST:
            raise ConfigurationError(f"largest_answer={self.largest_answer}: {LARGEST} bytes at most can be kept.")
        if self.largest_request < 0:
            raise ConfigurationError(f"largest_request={self.largest_request}: give a number of bytes.")
        LeaseTiming.of(self.ttl)

    def counts_for(self, method: str) -> bool:
        return method.upper() in {each.upper() for each in self.methods}

    def once(self, locks: AsyncInterlock | Interlock, request: "KeyedRequest") -> Once:
        retention = None if self.keep_for is None else Retention(_PREFIX, seconds(self.keep_for))
        return locks.once_settings(request.name, self.ttl, request.fingerprint, retention)


class KeyedRequest(NamedTuple):
    """`identity` is whose key it is: two clients may use the same. It is text, or has a text of its own."""

    identity: object
    method: str
    path: str
    key: str
    query: str
    content_type: str
    body: bytes

    @property
    def name(self) -> str:
        """Hashed: it may be of any length, and an identity may be a secret."""
        text = json.dumps([self.identity, self.method, self.path, self.key], default=str)
        return _PREFIX + hashlib.sha256(text.encode()).hexdigest()

    @property
    def fingerprint(self) -> tuple[str, ...]:
        return self.query, self.content_type, hashlib.sha256(self.body).hexdigest()


class Treatment:
    """One request under a key: `answer` is the application's own, if it was asked and has one. A `run` that nothing can
    interrupt sets it by itself: it may get there after the lease is lost."""

    def __init__(self, rules: Rules, once: Once, run: Callable[[AsyncGrant], Awaitable[Answer]]) -> None:
        self.answer: Answer | None = None
        self._rules = rules
        self._once = once
        self._run = run
        self._failure: Exception | None = None

    async def result(self, engine: Engine) -> Answer:
        """What the client is told. It is the application's own answer just if it *is* `self.answer`.

        What the application raises is raised.
        """
        patience = checked_timeout(self._rules.wait)
        try:
            kept = await self._once.run(engine, object(), patience, self._work)
        except _NotKept:
            assert self.answer is not None
            return self.answer
        except InterlockError as error:
            if self._failure is not None:
                raise self._failure from self._failure.__cause__
            return self._without_record(error)
        return self.answer or _again(unpacked(kept))

    async def _work(self, grant: AsyncGrant) -> object:
        try:
            self.answer = await self._run(grant)
        except Exception as error:
            self._failure = error
            raise
        if not self._rules.keep(self.answer.status):
            raise _NotKept
        return packed(self.answer)

    def _without_record(self, error: InterlockError) -> Answer:
        if self.answer is not None:  # it is done, and telling so is better than having it done again
            log.warning("idempotency.not_recorded", extra={"key": self._once.key, "why": str(error)})
            return self.answer
        if isinstance(error, OnceConflict):
            return problems.key_reused()
        if isinstance(error, LeaseTimeout):
            return problems.under_way()
        if isinstance(error, ConfigurationError):
            raise error
        log.error("idempotency.unavailable", extra={"key": self._once.key, "why": str(error)})
        return problems.unavailable()


class _NotKept(Exception):
    """Not to be recorded: the next who comes under this key runs."""


def _again(answer: Answer) -> Answer:
    if answer.body is None:
        return problems.not_kept(answer.status)
    return answer._replace(headers=[*answer.headers, REPLAYED])
