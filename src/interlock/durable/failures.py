"""Errors on their way through the engine, which keeps only the text of an error.

The text holds code, message and `retry` as JSON, behind a prefix, and `ActivityFailure.read` reads it. A text without
the prefix is the engine's own.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from interlock.errors import AttemptSuperseded, DoNotRetry, OrchestrationEnded, RecordOvertaken, code_of_class

_PREFIX = "interlock-failure:"
_CANCELLED = "canceled: "
_LONGEST = 2000
_INTERRUPTED = (AttemptSuperseded.code, "interrupted")
_SUPERSEDED = (AttemptSuperseded.code, OrchestrationEnded.code, RecordOvertaken.code)


@dataclass(frozen=True)
class ActivityFailure:
    """The failure of an activity. `retry` is True if another attempt may help."""

    code: str
    message: str
    retry: bool

    @property
    def interrupted(self) -> bool:
        """True if the attempt did not end by itself, so its failure says nothing about the step."""
        return self.code in _INTERRUPTED

    @property
    def superseded(self) -> bool:
        """True if the work has ended or another attempt or orchestration has taken it over, which is expected."""
        return self.code in _SUPERSEDED

    @classmethod
    def of(cls, error: BaseException, never: tuple[type[BaseException], ...] = ()) -> "ActivityFailure":
        own: Any = getattr(error, "code", None)
        code = own if isinstance(own, str) and own else code_of_class(type(error).__name__)
        retry = not isinstance(error, (DoNotRetry, *never))
        return cls(code, (str(error) or type(error).__name__)[:_LONGEST], retry or isinstance(error, AttemptSuperseded))

    @classmethod
    def read(cls, text: str) -> "ActivityFailure":
        if text.startswith(_CANCELLED):  # first, because the reason is the caller's text and may quote a failure
            return ActivityFailure("cancelled", text.removeprefix(_CANCELLED), retry=False)
        _, prefix, rest = text.partition(_PREFIX)
        if prefix:
            facts, _ = json.JSONDecoder().raw_decode(rest)
            return cls(**facts)
        return ActivityFailure("engine_failed", text[:_LONGEST], retry=False)

    def __str__(self) -> str:
        return _PREFIX + json.dumps(asdict(self))


class EncodedFailure(Exception):
    """An exception for the engine, which passes on only the exception's text."""

    def __init__(self, failure: ActivityFailure) -> None:
        super().__init__(str(failure))


def is_cancelled(text: str) -> bool:
    return text.startswith(_CANCELLED)
