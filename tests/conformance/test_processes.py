"""Processes that are killed or stopped at the wrong moment."""

import asyncio
from collections.abc import Callable

import pytest

from conformance.programs import Program
from interlock import AsyncInterlock

lease = "lease"


async def line(program: Program) -> list[str]:
    return await asyncio.to_thread(program.line)


async def end_of_wait(program: Program) -> list[str]:
    """A waiter without notifications polls, and prints each time that it waits."""
    while (said := await line(program)) == ["waiting"]:
        pass
    return said


@pytest.mark.guarantee(lease, "a killed holder's lease expires")
async def test_the_lease_of_a_killed_process_goes_to_a_waiter(
    locks: AsyncInterlock, process: Callable[..., Program]
) -> None:
    holder = process("feeds", ttl=1)
    _, token = await line(holder)
    holder.kill()
    grant = await locks.lease("feeds").acquire()
    assert grant.token > int(token)
    await grant.release()


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.guarantee(lease, "a killed waiter delays no other")
async def test_the_dead_in_a_queue_are_passed_over(locks: AsyncInterlock, process: Callable[..., Program]) -> None:
    grant = await locks.lease("feeds").acquire()
    dead = [process("feeds") for _ in range(3)]
    for waiter in dead:
        assert await line(waiter) == ["waiting"]
    living = process("feeds")
    assert await line(living) == ["waiting"]
    for waiter in dead:
        waiter.kill()
    await grant.release()
    said, token = await end_of_wait(living)
    assert said == "held"
    assert int(token) > grant.token


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.guarantee(lease, "a killed waiter delays no other")
async def test_a_waiter_that_dies_after_its_notification_is_passed_over(
    locks: AsyncInterlock, process: Callable[..., Program]
) -> None:
    grant = await locks.lease("feeds").acquire()
    first = process("feeds")
    assert await line(first) == ["waiting"]
    second = process("feeds")
    assert await line(second) == ["waiting"]
    first.stop()
    await grant.release()  # it is notified, and cannot come
    first.kill()
    assert (await end_of_wait(second))[0] == "held"


@pytest.mark.guarantee(lease, "a stopped holder learns of its loss when it continues")
async def test_a_process_that_was_stopped_past_its_ttl_neither_trusts_its_lease_nor_gives_back_anothers(
    locks: AsyncInterlock, process: Callable[..., Program]
) -> None:
    holder = process("feeds", ttl=1)
    _, token = await line(holder)
    holder.stop()
    grant = await locks.lease("feeds").acquire()
    assert grant.token > int(token)
    holder.go_on()
    holder.tell("check")
    assert await line(holder) == ["lost"]
    holder.tell("release")
    assert await line(holder) == ["released", "False"]
    assert not grant.lost
    assert await grant.release()


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.guarantee(lease, "a waiter that does not respond is skipped")
async def test_a_waiter_that_stands_still_is_passed_over_and_queues_again(
    locks: AsyncInterlock, process: Callable[..., Program]
) -> None:
    grant = await locks.lease("feeds").acquire()
    first = process("feeds")
    assert await line(first) == ["waiting"]
    second = process("feeds")
    assert await line(second) == ["waiting"]
    first.stop()
    await grant.release()
    assert (await end_of_wait(second))[0] == "held"
    first.go_on()
    assert await line(first) == ["waiting"]
    second.tell("release")
    assert await line(second) == ["released", "True"]
    assert (await end_of_wait(first))[0] == "held"
