"""The wait at the gate: reports of the gate's holder, and the time limit."""

from collections.abc import Callable

from interlock import errors
from interlock.clock import boottime
from interlock.gate.lock_session import LockSession
from interlock.gate.progress import OpenRun
from interlock.logs import events

log = events(__name__)

_REPORT_EVERY = 10.0


class GateWait:
    """Reports the gate's holder every 10 seconds, and ends the wait after the timeout."""

    def __init__(self, timeout: float | None, on_wait: Callable[[str], object] | None) -> None:
        now = boottime()
        self._on_wait = on_wait
        self._give_up_at = None if timeout is None else now + timeout
        self._report_at = now

    def tick(self, lock: LockSession, run: OpenRun | None) -> None:
        if boottime() >= self._report_at:
            self._report_at = boottime() + _REPORT_EVERY
            log.info("gate.waiting", extra={"gate": str(lock.name), **(run.facts() if run else {})})
            self._report(f"Waiting at the gate {lock.name}, which is taken{held_by(run)}.")
        if self._give_up_at is not None and boottime() >= self._give_up_at:
            raise errors.GateTimeout(
                f"The gate {lock.name} is still taken{held_by(run)}: wait longer, or see `interlock gate status`.",
                gate=str(lock.name),
            )

    def _report(self, sentence: str) -> None:
        if self._on_wait is None:
            return
        try:
            self._on_wait(sentence)
        except Exception:
            log.exception("gate.callback_failed")


def held_by(run: OpenRun | None) -> str:
    if run is None:
        return ""
    step = f", at {run.step!r}" if run.step else ""
    return f" by {run.replica} ({run.running_for:.0f} s so far{step})"
