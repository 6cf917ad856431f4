"""The exit status of a command under a lease or a gate."""

from collections.abc import Callable

import pytest

from interlock.errors import CommandAtLarge, InterlockError
from interlock.supervision import CommandResult, status_of


class Lost(InterlockError):
    pass


class Something:
    trusted_until = 0.0

    def on_renewed(self, callback: Callable[[float], object]) -> None:
        pass

    def error(self) -> InterlockError:
        return Lost()


@pytest.mark.parametrize("status", [0, 3, 137])
def test_the_status_is_the_commands(status: int) -> None:
    assert status_of(CommandResult(status, "itself", left_behind=0, all_ended=True), Something()) == status


def test_background_processes_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert status_of(CommandResult(0, "itself", left_behind=2, all_ended=True), Something(), lease="feeds") == 0
    [record] = caplog.records
    assert (record.message.split()[0], vars(record)["lease"], vars(record)["processes"]) == (
        "command.left_behind",
        "feeds",
        2,
    )


def test_a_command_whose_trust_ended_is_a_loss_even_after_a_later_renewal() -> None:
    with pytest.raises(Lost):
        status_of(CommandResult(137, "deadline", left_behind=0, all_ended=True), Something())


def test_a_command_without_a_reported_end_may_still_run() -> None:
    with pytest.raises(CommandAtLarge, match="find and end them on this machine"):
        status_of(CommandResult(137, "supervisor killed", left_behind=0, all_ended=False), Something())
