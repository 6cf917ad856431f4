"""Errors on their way through the engine, which keeps nothing of them but a text.

So code, message and whether another attempt may help are put into the text as JSON, behind a mark, and read again in
one place. A text without the mark is the engine's own.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from interlock.errors import AttemptSuperseded, DoNotRetry, spelled

_MARK = "interlock-failure:"
_CANCELLED = "canceled: "
_LONGEST = 2000
_INTERRUPTED = (AttemptSuperseded.code, "interrupted")


@dataclass(frozen=True)
class ActivityFailure:
    """`retry`: another attempt may help."""

    code: str
    message: str
    retry: bool

    @property
    def interrupted(self) -> bool:
        """The attempt did not end by itself: that it failed says nothing about the step."""
        return self.code in _INTERRUPTED

    @classmethod
    def of(cls, error: BaseException, never: tuple[type[BaseException], ...] = ()) -> "ActivityFailure":
        own: Any = getattr(error, "code", None)
        code = own if isinstance(own, str) and own else spelled(type(error).__name__)
        retry = not isinstance(error, (DoNotRetry, *never))
        return cls(code, (str(error) or type(error).__name__)[:_LONGEST], retry or isinstance(error, AttemptSuperseded))

    @classmethod
    def read(cls, text: str) -> "ActivityFailure":
        if text.startswith(_CANCELLED):  # and why is somebody's own words, which may quote a failure
            return ActivityFailure("cancelled", text.removeprefix(_CANCELLED), retry=False)
        _, mark, rest = text.partition(_MARK)
        if mark:
            facts, _ = json.JSONDecoder().raw_decode(rest)
            return cls(**facts)
        return ActivityFailure("engine_failed", text[:_LONGEST], retry=False)

    def __str__(self) -> str:
        return _MARK + json.dumps(asdict(self))


class EncodedFailure(Exception):
    """Raised into the engine: its text is all that comes out again."""

    def __init__(self, failure: ActivityFailure) -> None:
        super().__init__(str(failure))


def is_cancelled(text: str) -> bool:
    return text.startswith(_CANCELLED)
