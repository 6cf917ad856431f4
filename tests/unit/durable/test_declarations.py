"""Valid declarations, and invalid ones that are refused at the declaration."""

from datetime import UTC, datetime
from typing import Any

import pytest

from interlock import Attempt, DoNotRetry, Orchestrations, Retry, Run
from interlock.durable.declarations import Registry
from interlock.durable.failures import ActivityFailure
from interlock.errors import ActivityFailed, AttemptSuperseded, ConfigurationError


def test_an_activity_has_to_declare_its_types() -> None:
    async def untyped(attempt: Attempt, order) -> int:  # type: ignore[no-untyped-def]
        return 1

    with pytest.raises(ConfigurationError, match="annotate the second argument"):
        Orchestrations().activity()(untyped)


def test_an_activity_may_be_plain_and_an_orchestration_may_not() -> None:
    def plain(attempt: Attempt, order: int) -> int:
        return 1

    async def awaited(attempt: Attempt, order: int) -> int:
        return 1

    def ordered(run: Run, order: int) -> int:
        return 1

    work = Orchestrations()
    assert [work.activity()(function).is_plain for function in (plain, awaited)] == [True, False]
    with pytest.raises(ConfigurationError, match="ordered has to be an `async def`"):
        work.orchestration()(ordered)  # type: ignore[arg-type]


def test_a_type_without_json_is_refused() -> None:
    class Socket: ...

    async def connect(attempt: Attempt, socket: Socket) -> int:
        return 1

    connect.__annotations__["socket"] = Socket
    with pytest.raises(ConfigurationError, match="which JSON cannot hold"):
        Orchestrations().activity()(connect)


def test_an_orchestration_with_a_finally_is_refused() -> None:
    async def cleans_up(run: Run, order: int) -> None:
        try:
            await run.sleep(1)
        finally:
            print("at every turn")

    with pytest.raises(ConfigurationError, match=r"a `finally:` block .* cleanup="):
        Orchestrations().orchestration()(cleans_up)


def test_an_orchestration_with_a_with_block_is_refused() -> None:
    async def enters(run: Run, order: int) -> None:
        with open("/dev/null"):  # noqa: ASYNC230, PTH123
            await run.sleep(1)

    with pytest.raises(ConfigurationError, match="a `with` block"):
        Orchestrations().orchestration()(enters)


def test_an_orchestration_that_catches_its_own_end_is_refused() -> None:
    async def clings(run: Run, order: int) -> None:
        try:
            await run.sleep(1)
        except BaseException as error:
            print(error)

    with pytest.raises(ConfigurationError, match="also catches the end of a turn"):
        Orchestrations().orchestration()(clings)


def test_two_of_one_name_are_refused() -> None:
    work = Orchestrations()

    async def reserve(attempt: Attempt, order: int) -> int:
        return 1

    work.activity()(reserve)
    with pytest.raises(ConfigurationError, match="two activities 'reserve'"):
        work.activity()(reserve)


def test_two_parts_with_one_name_are_refused() -> None:
    async def reserve(attempt: Attempt, order: int) -> int:
        return 1

    parts = [Orchestrations(), Orchestrations()]
    for part in parts:
        part.activity()(reserve)
    with pytest.raises(ConfigurationError, match="prefix"):
        Registry(*parts)


def test_a_version_that_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="write three numbers"):
        Orchestrations().orchestration(version="latest")


def test_the_longest_activity_is_how_long_a_replica_waits() -> None:
    work = Orchestrations()

    @work.activity(timeout=7)
    async def long(attempt: Attempt, order: int) -> int:
        return 1

    @work.activity(timeout=3)
    async def short(attempt: Attempt, order: int) -> int:
        return 1

    assert Registry(work).longest_timeout == 7


@pytest.mark.parametrize(
    ("failures", "pause"), [(1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (9, 5.0), (10, None), (11, None)]
)
def test_pauses_grow_up_to_the_longest_and_end_with_the_last_attempt(failures: int, pause: float | None) -> None:
    assert Retry(attempts=10, first=1, factor=2, longest=5).pause(failures) == pause


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"first": -1}, {"factor": 0.5}, {"first": 5, "longest": 1}])
def test_a_policy_that_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="cannot work"):
        Retry(**wrong)


def through_the_engine(failure: ActivityFailure) -> ActivityFailure:
    return ActivityFailure.read(f"Activity 'x' call failed: Encoded: {failure}\n")


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ValueError("bad {luck}"), ActivityFailure("value_error", "bad {luck}", retry=True)),
        (DoNotRetry("over", code="quota"), ActivityFailure("quota", "over", retry=False)),
        (ActivityFailed("it failed", activity="pay", code="quota"), ActivityFailure("quota", "it failed", retry=True)),
        (AttemptSuperseded("late"), ActivityFailure("attempt_superseded", "late", retry=True)),
        (KeyError(), ActivityFailure("key_error", "KeyError", retry=True)),
    ],
)
def test_code_and_message_survive_the_engine(error: Exception, failure: ActivityFailure) -> None:
    assert ActivityFailure.of(error) == failure
    assert through_the_engine(failure) == failure


def test_errors_of_excluded_types_are_not_retried() -> None:
    assert not ActivityFailure.of(PermissionError("no"), never=(OSError,)).retry


def test_errors_of_the_engine_are_distinguished_from_those_of_activities() -> None:
    assert ActivityFailure.read("nondeterministic: schedule mismatch").code == "engine_failed"
    assert ActivityFailure.read("canceled: for good").code == "cancelled"
    quoted = "it hangs: interlock-failure:{"
    assert ActivityFailure.read(f"canceled: {quoted}") == ActivityFailure("cancelled", quoted, retry=False)


def test_the_key_is_the_same_for_every_attempt() -> None:
    first, second = (
        Attempt("o", "o", 1, 2, number, datetime(2026, 1, 1, tzinfo=UTC), "interlock") for number in (1, 2)
    )
    assert first.key == second.key == "o/1.2"
