"""Runs a batch as separate requests, a limited number at a time.

TransactWriteItems would take a hundred items in one request, but writes all of them or none: one lost lease would fail
the renewal of the others. So each item has its own request, and its own outcome.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from interlock.errors import InterlockError
from interlock.stores.leases import PartlyFailed

AT_ONCE = 32
"""Concurrent requests. Each costs a connection while it lasts, and a millisecond of this process."""

Request = TypeVar("Request")
Answer = TypeVar("Answer")


async def gather_outcomes(
    work: Callable[[Request], Awaitable[Answer]], requests: Sequence[Request]
) -> list[Answer | InterlockError]:
    """Returns, in the order of the requests, the answer or the error of each."""
    if len(requests) == 1:
        return [await _outcome(work, requests[0])]
    outcomes: dict[int, Answer | InterlockError] = {}
    waiting = iter(enumerate(requests))

    async def take_on() -> None:
        for place, request in waiting:
            outcomes[place] = await _outcome(work, request)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(AT_ONCE, len(requests))):
            group.create_task(take_on())
    return [outcomes[place] for place in range(len(requests))]


async def _outcome(work: Callable[[Request], Awaitable[Answer]], request: Request) -> Answer | InterlockError:
    try:
        return await work(request)
    except InterlockError as error:
        return error


async def each_of(work: Callable[[Request], Awaitable[Answer]], requests: Sequence[Request]) -> list[Answer]:
    """Returns the answers. Raises `PartlyFailed` if some failed, and the first error if all did."""
    outcomes = await gather_outcomes(work, requests)
    answers = [outcome for outcome in outcomes if not isinstance(outcome, InterlockError)]
    if answers and len(answers) < len(outcomes):
        raise PartlyFailed(outcomes)
    return _or_first_error(outcomes)


async def all_of(work: Callable[[Request], Awaitable[Answer]], requests: Sequence[Request]) -> list[Answer]:
    """Returns the answers, or raises the first error, after all requests have ended."""
    return _or_first_error(await gather_outcomes(work, requests))


def _or_first_error(outcomes: Sequence[Answer | InterlockError]) -> list[Answer]:
    answers = []
    for outcome in outcomes:
        if isinstance(outcome, InterlockError):
            raise outcome
        answers.append(outcome)
    return answers
