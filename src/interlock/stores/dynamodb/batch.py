"""A batch, as far as DynamoDB has such a thing: requests of their own, some of them at a time.

TransactWriteItems would take a hundred items in one request, but all or none: one lease that is lost would cost the
renewal of the others. So each has its own, and its own outcome.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from interlock.errors import InterlockError
from interlock.stores.leases import PartlyFailed

AT_ONCE = 32
"""Requests under way. Each costs a connection while it lasts, and a millisecond of this process."""

Request = TypeVar("Request")
Answer = TypeVar("Answer")


async def side_by_side(
    work: Callable[[Request], Awaitable[Answer]], requests: Sequence[Request]
) -> list[Answer | InterlockError]:
    """The answers in the order of the requests; instead of an answer, the error of ours that there was."""
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
    """Or `PartlyFailed`; or the first error, if there is no answer at all."""
    outcomes = await side_by_side(work, requests)
    answers = [outcome for outcome in outcomes if not isinstance(outcome, InterlockError)]
    if answers and len(answers) < len(outcomes):
        raise PartlyFailed(outcomes)
    return _or_first_error(outcomes)


async def all_of(work: Callable[[Request], Awaitable[Answer]], requests: Sequence[Request]) -> list[Answer]:
    """Or the first error, after everything has come to its end."""
    return _or_first_error(await side_by_side(work, requests))


def _or_first_error(outcomes: Sequence[Answer | InterlockError]) -> list[Answer]:
    answers = []
    for outcome in outcomes:
        if isinstance(outcome, InterlockError):
            raise outcome
        answers.append(outcome)
    return answers
