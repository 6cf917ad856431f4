"""Asking a store for leases, without the engine that asks for users."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar
from uuid import UUID, uuid4

from interlock.stores.leases import AcquireAnswer, AcquireRequest, LeaseStore, ReleaseAnswer

T = TypeVar("T")

SOON = 2.0
"""A ttl that is soon over. DynamoDB is given half of it for a request, on a machine that is busy with other tests."""


class Got(NamedTuple):
    """A grant, as a store wants to have it named."""

    name: str
    token: int
    grant_id: UUID
    ttl: float


def acquire_request(
    name: str = "feeds", *, ttl: float = 30.0, wait: bool = False, metadata: str | None = None
) -> AcquireRequest:
    return AcquireRequest(name, uuid4(), ttl, metadata, wait)


async def answer(store: LeaseStore, ask: AcquireRequest) -> AcquireAnswer:
    """The final answer: repeats the request while another transaction uses the name."""

    async def ask_again() -> AcquireAnswer | None:
        (answer,) = await store.acquire([ask])
        return None if answer.status in ("locked", "changing") else answer

    return await eventually(ask_again)


async def grant(store: LeaseStore, name: str = "feeds", *, ttl: float = 30.0) -> Got:
    ask = acquire_request(name, ttl=ttl)
    got = await answer(store, ask)
    assert got.status == "granted", got
    return Got(name, got.token, ask.grant_id, ttl)


async def grant_after_expiry(store: LeaseStore, name: str = "feeds", *, ttl: float = 30.0) -> Got:
    ask = acquire_request(name, ttl=ttl)

    async def ask_again() -> AcquireAnswer | None:
        got = await answer(store, ask)
        return got if got.status == "granted" else None

    got = await eventually(ask_again)
    return Got(name, got.token, ask.grant_id, ttl)


async def release_grant(store: LeaseStore, got: Got) -> ReleaseAnswer:
    (released,) = await store.release([got])
    return released


async def eventually(look: Callable[[], Awaitable[T | None]]) -> T:
    """The first answer of `look`; the test's own time-out ends the wait for it."""
    while (seen := await look()) is None:  # noqa: ASYNC110 - a store does not report that time has passed
        await asyncio.sleep(0.01)
    return seen
