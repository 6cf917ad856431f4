"""The log entries of activities and orchestrations that fail."""

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from interlock import Attempt, Orchestrations, Run
from interlock.durable.declarations import Registry
from interlock.durable.failures import EncodedFailure
from interlock.durable.generators import generator_of
from interlock.durable.worker import ActivityWorker
from interlock.errors import AttemptSuperseded, DriverUnreachable, RecordOvertaken

SUPERSEDED = AttemptSuperseded("Another replica has taken over this step: roll back.")
OVERTAKEN = RecordOvertaken(
    "The orchestration instance-1-delete works on the instance 1 now: leave the work to that orchestration."
)


@dataclass
class Database:
    """`attempts` are the rows that the statement `begin` returns."""

    attempts: list[tuple[int, datetime]]
    schema: str = "interlock"

    async def fetch(self, name: str, *args: Any) -> list[tuple[int, datetime]]:
        return self.attempts


class Context:
    instance_id, execution_id = "instance-1-create", 1

    def is_cancelled(self) -> bool:
        return False


async def perform(error: Exception | None, *, is_open: bool = True) -> None:
    async def provision(attempt: Attempt, order: int) -> None:
        if error is not None:
            raise error

    work = Orchestrations()
    work.activity()(provision)
    database: Any = Database([(1, datetime.now(UTC))] if is_open else [])
    worker = ActivityWorker(Registry(work), database, asyncio.get_running_loop())
    content = {"root": "instance-1-create", "step": 1, "input": 1}
    with pytest.raises(EncodedFailure):
        await asyncio.to_thread(worker.perform, "provision", Context(), content)


@pytest.mark.parametrize("error", [SUPERSEDED, OVERTAKEN])
async def test_an_attempt_that_was_superseded_is_one_line_at_info(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "interlock")
    await perform(error)
    [record] = caplog.records
    assert (record.levelname, record.exc_info) == ("INFO", None)
    assert "activity.superseded" in record.getMessage()


async def test_a_step_of_an_orchestration_that_has_ended_is_one_line_at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "interlock")
    await perform(None, is_open=False)
    [record] = caplog.records
    assert (record.levelname, record.exc_info) == ("INFO", None)


async def test_any_other_failure_is_a_warning_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "interlock")
    await perform(DriverUnreachable("The driver does not answer: check it."))
    [record] = caplog.records
    assert (record.levelname, bool(record.exc_info)) == ("WARNING", True)
    assert "activity.failed" in record.getMessage()


@pytest.mark.parametrize(("error", "levels"), [(OVERTAKEN, []), (ValueError("it"), ["WARNING"])])
def test_an_orchestration_that_was_overtaken_is_not_reported_again(
    error: Exception, levels: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Its activity has been reported already."""

    async def create(run: Run, order: int) -> None:
        raise error

    caplog.set_level(logging.INFO, "interlock")
    drive = generator_of(Orchestrations().orchestration()(create))
    with pytest.raises(EncodedFailure):
        next(drive(Context(), {"root": "instance-1-create", "input": 1}))
    assert [record.levelname for record in caplog.records] == levels
