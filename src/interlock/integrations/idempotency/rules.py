"""The rules for requests under a key, and the run of such a request, for all frameworks."""

import hashlib
import json
import math
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
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
_LONGEST_KEY = 255
# A string as in RFC 8941, with parameters that are ignored; or the same without quotes, as most clients send it.
_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])+)"(?: *;[ -~]*)?')
_BARE = re.compile(r"[!#-+\--:<-\[\]-~]+")


class MalformedKey(ValueError):
    pass


def read_key(values: Sequence[str]) -> str | None:
    """Returns the key from the values of all Idempotency-Key headers, without quotes; None without such a header."""
    if not values:
        return None
    if len(values) > 1:
        raise MalformedKey("There are several Idempotency-Key headers: send one.")
    value = values[0].strip(" \t")
    if quoted := _QUOTED.fullmatch(value):
        key = re.sub(r"\\(.)", r"\1", quoted[1])
    elif _BARE.fullmatch(value):
        key = value
    else:
        raise MalformedKey(
            'The Idempotency-Key is malformed: send a string such as "8e03978e-40d5-43dd-bc93-6894a57f".'
        )
    if len(key) > _LONGEST_KEY:
        raise MalformedKey(f"The Idempotency-Key has {len(key)} characters: use {_LONGEST_KEY} at most.")
    return key


def is_final(status: int) -> bool:
    """Returns True if a repeated request would get the same answer. Server errors and "try later" are not final."""
    return status < 500 and status not in _LATER


class RuleOptions(TypedDict, total=False):
    """The arguments of `Rules`."""

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
    """A key counts for requests with one of `methods`. If `required` is true, such a request without a key is refused.

    `wait` is the time that a duplicate waits for the first request; with 0 a duplicate does not wait. Answers are kept
    for at least `keep_for`, or without limit if `keep_for` is None. `keep` decides by the status of an answer whether
    the answer is kept. `ttl` is the ttl of the lease: if the process that carries out a request is killed, a retry
    waits so long. `largest_request` and `largest_answer` are numbers of bytes.
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
            raise ConfigurationError(f"methods={self.methods!r}: give a tuple of methods, such as ('POST', 'PATCH').")
        if self.wait is None or checked_timeout(self.wait) == math.inf:
            raise ConfigurationError("wait has to be a number of seconds, or 0 to not wait at all.")
        if self.keep_for is not None and not 0 < seconds(self.keep_for) < math.inf:
            raise ConfigurationError(f"keep_for={self.keep_for!r}: give a number of seconds above 0, or None.")
        if not callable(self.keep):
            raise ConfigurationError(
                "keep has to be a function that takes a status and returns whether the answer is kept."
            )
        if not 0 <= self.largest_answer <= LARGEST:
            raise ConfigurationError(
                f"largest_answer={self.largest_answer}: give a number of bytes from 0 to {LARGEST}."
            )
        if self.largest_request < 0:
            raise ConfigurationError(f"largest_request={self.largest_request}: give a number of bytes, at least 0.")
        LeaseTiming.of(self.ttl)

    def counts_for(self, method: str) -> bool:
        return method.upper() in {each.upper() for each in self.methods}

    def once(self, locks: AsyncInterlock | Interlock, request: "KeyedRequest") -> Once:
        retention = None if self.keep_for is None else Retention(_PREFIX, seconds(self.keep_for))
        return locks.once_settings(request.name, self.ttl, request.fingerprint, retention)


class KeyedRequest(NamedTuple):
    """`identity` is the client that the key belongs to, because two clients may use the same key. The identity is
    text, or an object whose `str` identifies the client."""

    identity: object
    method: str
    path: str
    key: str
    query: str
    content_type: str
    body: bytes

    @property
    def name(self) -> str:
        """A hash, because a key may be of any length and an identity may be a secret."""
        text = json.dumps([self.identity, self.method, self.path, self.key], default=str)
        return _PREFIX + hashlib.sha256(text.encode()).hexdigest()

    @property
    def fingerprint(self) -> tuple[str, ...]:
        return self.query, self.content_type, hashlib.sha256(self.body).hexdigest()


class IdempotentRun:
    """One request under a key. `answer` is the application's own answer; None if the application has not answered.

    A `run` that cannot be interrupted has to set `answer` itself, because it may complete after the lease is lost.
    """

    def __init__(self, rules: Rules, once: Once, run: Callable[[AsyncGrant], Awaitable[Answer]]) -> None:
        self.answer: Answer | None = None
        self._rules = rules
        self._once = once
        self._run = run
        self._failure: Exception | None = None

    async def result(self, engine: Engine) -> Answer:
        """Returns the answer for the client. Only the object `self.answer` itself is the application's own answer.

        Raises the error that the application raises.
        """
        timeout = checked_timeout(self._rules.wait)
        try:
            kept = await self._once.run(engine, object(), timeout, self._work)
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
        if self.answer is not None:  # the request is done: this answer is better than carrying it out again
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
    """The answer is not recorded: the next request under the key runs the application again."""


def _again(answer: Answer) -> Answer:
    if answer.body is None:
        return problems.not_kept(answer.status)
    return answer._replace(headers=[*answer.headers, REPLAYED])
