"""Signals as requests to stop."""

import signal
from collections.abc import Iterator

import pytest

from interlock.server.signals import StopSignals

STOPPING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[None]:
    before = {signum: signal.getsignal(signum) for signum in STOPPING}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


@pytest.mark.parametrize("signum", STOPPING)
def test_a_signal_calls_back_and_does_not_end_the_process(signum: signal.Signals) -> None:
    heard: list[str] = []
    with StopSignals() as signals, signals.calling(lambda: heard.append("stop")):
        signal.raise_signal(signum)
        signal.raise_signal(signum)
    assert heard == ["stop", "stop"]


@pytest.mark.parametrize("signum", STOPPING)
def test_a_signal_after_the_loop_has_ended_is_only_counted(signum: signal.Signals) -> None:
    heard: list[str] = []
    with StopSignals() as signals:
        with signals.calling(lambda: heard.append("stop")):
            pass
        signal.raise_signal(signum)
    assert (heard, signals.received) == ([], 1)


def test_a_signal_before_the_loop_runs_is_not_lost() -> None:
    heard: list[str] = []
    with StopSignals() as signals:
        signal.raise_signal(signal.SIGTERM)
        with signals.calling(lambda: heard.append("stop")):
            assert heard == ["stop"]


def test_the_previous_handlers_return_if_no_signal_was_received() -> None:
    before = [signal.getsignal(signum) for signum in STOPPING]
    with StopSignals():
        assert [signal.getsignal(signum) for signum in STOPPING] != before
    assert [signal.getsignal(signum) for signum in STOPPING] == before


def test_after_a_request_to_stop_signals_are_ignored_to_the_end() -> None:
    with StopSignals():
        signal.raise_signal(signal.SIGTERM)
    for signum in STOPPING:
        signal.raise_signal(signum)


@pytest.mark.parametrize(("signum", "received"), [(signal.SIGINT, 0), (signal.SIGHUP, 0), (signal.SIGTERM, 1)])
def test_signals_that_were_ignored_at_the_start_stay_ignored_except_sigterm(
    signum: signal.Signals, received: int
) -> None:
    signal.signal(signum, signal.SIG_IGN)
    with StopSignals() as signals:
        signal.raise_signal(signum)
    assert signals.received == received
