"""Durations on the command line: a number of seconds, or a number with a unit."""

import math
from typing import Any

import click

from interlock.clock import duration_of


class DurationParameter(click.ParamType):  # type: ignore[type-arg] # generic only in its stubs
    """A duration, such as ``90``, ``90s``, ``500ms``, ``5m``, ``1h`` or ``2d``. The command gets seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        length = duration_of(value) if isinstance(value, str) else None
        try:
            length = float(value) if length is None else length
        except ValueError:
            length = math.nan
        if not 0 <= length < math.inf:
            self.fail(f"{value!r} is not a duration: use seconds (90), or a unit, as in 30s, 5m or 1h.", param, ctx)
        return length


DURATION = DurationParameter()
METAVAR = "DURATION"
