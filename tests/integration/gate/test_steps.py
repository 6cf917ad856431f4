"""Steps on targets without transactions: run once; a half-done step is reported and not run again."""

import pytest

from interlock import AsyncGate, Gate, errors
from support.postgres import execute


async def test_a_step_runs_once_and_later_calls_get_its_result(interlock_url: str) -> None:
    index: list[str] = []

    async def create_index() -> dict[str, int]:
        index.append("orders")
        return {"documents": 3}

    for _ in range(2):
        async with AsyncGate("shop", url=interlock_url) as passage:
            assert await passage.step("create index", create_index) == {"documents": 3}
    assert index == ["orders"]


async def test_a_failed_step_is_reported_and_not_run_again(interlock_url: str) -> None:
    tries: list[int] = []

    def effect() -> None:
        tries.append(1)
        raise ConnectionError("somewhere in the middle")

    async with AsyncGate("shop", url=interlock_url) as passage:
        with pytest.raises(ConnectionError):
            await passage.step("create index", effect)
    async with AsyncGate("shop", url=interlock_url) as passage:
        with pytest.raises(errors.StepHalfDone, match=r"was begun by .* and never finished") as half_done:
            await passage.step("create index", effect)
    assert half_done.value.step == "create index"
    assert tries == [1]


async def test_a_step_is_not_begun_when_its_precondition_does_not_hold(interlock_url: str) -> None:
    async with AsyncGate("shop", url=interlock_url) as passage:
        with pytest.raises(
            errors.StepRefused, match=r"precondition does not hold\. Make it hold, or correct .* again\."
        ):
            await passage.step("create index", lambda: None, precondition=lambda: False)
        assert await passage.step("create index", lambda: "made", precondition=lambda: True) == "made"


async def test_the_precondition_of_a_finished_step_is_not_called(interlock_url: str) -> None:
    async with AsyncGate("shop", url=interlock_url) as passage:
        await passage.step("create index", lambda: 1)
        assert await passage.step("create index", lambda: 2, precondition=lambda: False) == 1


async def test_steps_of_different_gates_are_independent(interlock_url: str) -> None:
    for app in ("shop", "billing"):
        async with AsyncGate(app, url=interlock_url) as passage:
            assert await passage.step("create index", lambda app=app: app) == app  # type: ignore[misc]


async def test_a_replica_that_does_not_migrate_has_no_steps(interlock_url: str) -> None:
    async with AsyncGate("shop", url=interlock_url, check=lambda: True) as passage:
        with pytest.raises(errors.GateError, match="not migrating"):
            await passage.step("create index", lambda: None)


async def test_a_result_that_cannot_be_recorded_is_dropped_and_the_step_is_done(interlock_url: str) -> None:
    async with AsyncGate("shop", url=interlock_url) as passage:
        assert await passage.step("create index", lambda: object()) is None
        assert await passage.step("create index", lambda: "again") is None


def test_without_an_event_loop_steps_work_the_same(interlock_url: str) -> None:
    with Gate("shop", url=interlock_url) as passage:
        assert passage.step("create index", lambda: [1, 2]) == [1, 2]
        assert passage.step("create index", lambda: None) == [1, 2]
    assert execute(interlock_url, "SELECT step, finished_at IS NOT NULL FROM interlock.gate_step") == [
        ("create index", True)
    ]
