"""What the adapters share: a tool's migration run inside the gate, and severed from the database if that is lost."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, get_args

from interlock.config import Settings
from interlock.errors import ConfigurationError, SchemaTooNew
from interlock.gate import Gate, Timing, Verdict
from interlock.gate.passage import Reason
from interlock.integrations.termination import Connections

Newer = Literal["refuse", "start"]
"""What a replica does that meets a database migrated by a newer release.

`refuse` is the default: an older release cannot know whether what it needs is still there. Those who migrate in two
phases (expand in one release, contract in a later one) know that the release before always fits, and say `start`.
"""

Watch = Callable[[Callable[[Any], None]], AbstractContextManager[object]]
"""Sees to it that its argument is called with the driver's connection before each statement of this thread."""


def migrate(gate: Gate, run: Callable[[], object], watch: Watch) -> Reason:
    """Call `run` inside the gate if it is needed; the answer is why it was, or was not.

    `run` opens its connections itself: those of an earlier time would not be known to a successor as this migration's.
    """
    with gate as passage:
        if passage.needed:
            connections = Connections(passage.check)
            passage.on_lost(connections.sever)
            try:
                with watch(connections.before_statement):
                    run()
            finally:
                connections.forget()
        return passage.reason


def settings_and_timing() -> tuple[Settings, Timing]:
    """What the environment says: the same for every way through the gate, or replicas would disagree about time."""
    settings = Settings.load()
    return settings, Timing.of(settings)


def check_newer(newer: str) -> None:
    if newer not in get_args(Newer):
        raise ConfigurationError(f"newer is {newer!r}: use refuse or start.")


def newer_verdict(found: str, newer: Newer, flag: str) -> Verdict:
    if newer == "start":
        return Verdict.NEWER
    raise SchemaTooNew(
        f"The database has {found}, which this release does not know: start a newer release, "
        f"or, if this one can work with that schema, say {flag}."
    )
