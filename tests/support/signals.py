"""The default actions of signals that background processes are started to ignore."""

import signal
from typing import Any

_DEFAULTS: dict[int, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGQUIT: signal.SIG_DFL,
}


def restore_defaults() -> None:
    """Handle the signals again: processes started by tests would inherit the ignored ones, and tests of interrupts
    could not interrupt them.

    A shell script starts what it runs in the background with SIGINT and SIGQUIT ignored, `nohup` with SIGHUP ignored.
    """
    for signum, default in _DEFAULTS.items():
        if signal.getsignal(signum) is signal.SIG_IGN:
            signal.signal(signum, default)
