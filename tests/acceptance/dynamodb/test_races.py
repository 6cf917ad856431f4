"""Many concurrent requests for one lease: one of them is granted."""

import asyncio
import time
from collections.abc import Callable

import pytest

from interlock.stores.dynamodb import row
from support.dynamodb_stores import replicas

pytestmark = pytest.mark.exhaustive

WRITERS, ROUNDS = 50, 200


async def race(url: str, rounds: int) -> list[int]:
    """The number of granted requests in each round. Each writer has its own connections.

    Requests have a minute, and connections are open before the start, so the machine's speed does not matter.
    """
    winners = []
    async with replicas(url, *(f"writer-{number}" for number in range(WRITERS)), timeout=60.0) as writers:
        for writer in writers:
            await writer.table()
        for number in range(rounds):
            answers = await asyncio.gather(*(writer.ask(f"round-{number}", ttl=600) for writer in writers))
            assert {answer.status for answer in answers} <= {"granted", "busy"}
            winners.append(sum(answer.status == "granted" for answer in answers))
    return winners


@pytest.mark.timeout(180)
async def test_fifty_writers_and_two_hundred_rounds_have_one_winner_each(
    dynamodb_url: str, request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> None:
    began = time.monotonic()
    assert await race(dynamodb_url, ROUNDS) == [1] * ROUNDS
    engine = request.node.callspec.params["dynamodb_endpoint"]
    took = time.monotonic() - began
    record_property("figure", f"{engine}: {WRITERS} writers, {ROUNDS} rounds, one winner each, {took:.1f} s")


async def test_writers_that_do_not_check_the_holder_are_detected(
    dynamodb_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The race has to be able to fail."""
    monkeypatch.setattr(row, "FREE", "attribute_not_exists(#key) OR #fence < :token OR #fence >= :token")
    assert max(await race(dynamodb_url, 3)) > 1
