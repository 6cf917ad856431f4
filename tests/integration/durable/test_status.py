"""The outcome of an orchestration, read from its record in the caller's transaction."""

import psycopg
import pytest

from interlock.durable.failures import ActivityFailure
from interlock.durable.status import OrchestrationOutcome, is_unfinished, read_outcome
from support.postgres import execute

RECORD = "SELECT interlock.record_orchestration_v1(%s, 'shop.sell', '1.0.0', '{}', NULL, NULL)"
END = "UPDATE interlock.orchestration SET finished_at = interlock.now_v1(), outcome = %s, output = %s WHERE id = %s"
SOLD_OUT = ActivityFailure("sold_out", "There is not that much.", retry=False)


@pytest.mark.parametrize(
    ("kind", "output", "failure"),
    [
        ("completed", "42", None),
        ("failed", str(SOLD_OUT), SOLD_OUT),
        ("cancelled", "canceled: too late", ActivityFailure("cancelled", "too late", retry=False)),
    ],
)
async def test_an_outcome_is_known_once_the_orchestration_has_ended(
    interlock_url: str, kind: str, output: str, failure: ActivityFailure | None
) -> None:
    execute(interlock_url, RECORD, "one")
    async with await psycopg.AsyncConnection.connect(interlock_url) as connection:
        assert await read_outcome(connection, "interlock", "one") == OrchestrationOutcome(None, None)
        assert await is_unfinished(connection, "interlock", "one")
    execute(interlock_url, END, kind, output, "one")
    async with await psycopg.AsyncConnection.connect(interlock_url) as connection:
        assert await read_outcome(connection, "interlock", "one") == OrchestrationOutcome(kind, failure)  # type: ignore[arg-type]
        assert not await is_unfinished(connection, "interlock", "one")


async def test_an_orchestration_goes_on_while_its_clean_up_does(interlock_url: str) -> None:
    execute(interlock_url, RECORD, "one")
    execute(interlock_url, END, "failed", str(SOLD_OUT), "one")
    execute(interlock_url, RECORD, "one:cleanup")
    async with await psycopg.AsyncConnection.connect(interlock_url) as connection:
        assert await is_unfinished(connection, "interlock", "one")


async def test_an_unknown_orchestration_has_no_outcome(interlock_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(interlock_url) as connection:
        assert await read_outcome(connection, "interlock", "none") is None
        assert not await is_unfinished(connection, "interlock", "none")
