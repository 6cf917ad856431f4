"""A command under a grant that can be lost, and signals that arrive meanwhile."""

import os
import signal
from collections.abc import Callable

from interlock.clock import boottime
from interlock.errors import InterlockError
from interlock.supervision import SignalForwarder, run_under, status_of


class NeverLost:
    """A grant that is never lost."""

    trusted_until = boottime() + 3600

    def on_renewed(self, callback: Callable[[float], object]) -> None:
        pass

    def error(self) -> InterlockError:
        return InterlockError()


async def test_a_signal_that_comes_while_the_command_is_started_goes_to_the_command() -> None:
    ended = False

    async def work(signals: SignalForwarder) -> int:
        nonlocal ended
        signal.raise_signal(signal.SIGTERM)  # the event loop handles it while it waits for the start
        result = await run_under(NeverLost(), ["sleep", "300"], signals, environment=os.environ, grace=1)
        ended = True
        return status_of(result, NeverLost())

    with SignalForwarder() as signals:
        assert await signals.exit_status(work(signals)) == 128 + signal.SIGTERM
    assert ended, "the work was cancelled, and the command killed without a warning"
