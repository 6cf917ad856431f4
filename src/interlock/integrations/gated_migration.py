"""The run of a migration tool inside the gate, for all adapters. The loss of the gate severs the tool's connections."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, get_args

from interlock.config import Settings
from interlock.errors import ConfigurationError, SchemaTooNew
from interlock.gate import Gate, Timing, Verdict
from interlock.gate.passage import Reason
from interlock.integrations.termination import Connections

Newer = Literal["refuse", "start"]
"""The behaviour of a replica whose database was migrated by a newer release.

`refuse` is the default: an older release cannot know whether everything that it needs still exists. Teams that migrate
in two phases (expand in one release, contract in a later one) know that the previous release always fits, and choose
`start`.
"""

Watch = Callable[[Callable[[Any], None]], AbstractContextManager[object]]
"""A function that takes a callback and returns a context manager. Inside the context the callback is called with the
driver's connection before each statement of this thread."""


def migrate(gate: Gate, run: Callable[[], object], watch: Watch) -> Reason:
    """Call `run` inside the gate if a migration is needed. Returns the reason why `run` was called or not.

    `run` has to open its connections itself: a successor could not recognise older connections as this migration's.
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
    """Returns the settings of the environment. Every adapter has to use them, so that replicas agree on the timing."""
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
        f"or use {flag} if this release can work with that schema."
    )
