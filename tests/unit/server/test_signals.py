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
def test_a_signal_calls_back_and_ends_nothing(signum: signal.Signals) -> None:
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


def test_a_signal_before_the_loop_has_begun_is_not_lost() -> None:
    heard: list[str] = []
    with StopSignals() as signals:
        signal.raise_signal(signal.SIGTERM)
        with signals.calling(lambda: heard.append("stop")):
            assert heard == ["stop"]


def test_afterwards_signals_do_what_they_did_before_if_none_has_come() -> None:
    before = [signal.getsignal(signum) for signum in STOPPING]
    with StopSignals():
        assert [signal.getsignal(signum) for signum in STOPPING] != before
    assert [signal.getsignal(signum) for signum in STOPPING] == before


def test_a_process_that_was_asked_to_stop_is_not_disturbed_to_its_very_end() -> None:
    with StopSignals():
        signal.raise_signal(signal.SIGTERM)
    for signum in STOPPING:
        signal.raise_signal(signum)


@pytest.mark.parametrize(("signum", "received"), [(signal.SIGINT, 0), (signal.SIGHUP, 0), (signal.SIGTERM, 1)])
def test_of_the_signals_that_a_process_was_started_to_ignore_only_sigterm_stops_it(
    signum: signal.Signals, received: int
) -> None:
    signal.signal(signum, signal.SIG_IGN)
    with StopSignals() as signals:
        signal.raise_signal(signum)
    assert signals.received == received
