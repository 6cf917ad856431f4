"""Live members and their metadata."""

import pytest

from interlock import AsyncInterlock, Interlock, errors
from support.lease_engine import cancel_as_it_ends, take_away, until
from support.postgres import execute


async def ids(locks: AsyncInterlock, group: str = "workers") -> list[str]:
    return [member.id for member in await locks.members(group)]


async def test_members_are_listed_with_their_metadata(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    assert await locks.members("workers") == []
    async with locks.join("workers", id="a", metadata={"zone": 1}) as first, others.join("workers") as second:
        assert first.is_member
        found = {member.id: member for member in await locks.members("workers")}
        assert set(found) == {"a", second.id}
        assert (found["a"].holder, found["a"].metadata) == ("one", {"zone": 1})
        assert (found[second.id].holder, found[second.id].metadata) == ("two", None)
        assert found["a"].pid is not None
        assert found["a"].joined_at.tzinfo is not None
        assert 0 < found["a"].remaining <= 10
        async with locks.join("workers-2", id="a"), locks.join("workers", id="b"):
            assert await ids(locks) == sorted(["a", "b", second.id])
    assert await ids(locks) == []
    assert not first.is_member


async def test_a_process_may_be_several_members(locks: AsyncInterlock) -> None:
    async with locks.join("workers"), locks.join("workers"):
        assert len(await ids(locks)) == 2


async def test_a_member_that_was_cut_off_joins_again_and_is_not_interrupted(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    async with locks.join("workers", id="a", ttl=4) as member:
        take_away(interlock_url, "workers##member/a")
        await until(lambda: not member.is_member)
        execute(interlock_url, "UPDATE interlock.lease SET expires_at = '-infinity', grant_id = NULL")
        await until(lambda: member.is_member)
        assert await ids(locks) == ["a"]
    assert await ids(locks) == []


async def test_leaving_while_it_is_cut_off(locks: AsyncInterlock, interlock_url: str) -> None:
    async with locks.join("workers", id="a", ttl=4) as member:
        take_away(interlock_url, "workers##member/a")
        await until(lambda: not member.is_member)
    await until(lambda: execute(interlock_url, "SELECT count(*) FROM interlock.waiter")[0][0] == 0)


async def test_a_member_that_cannot_join_again_logs_it(
    locks: AsyncInterlock, interlock_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with locks.join("workers", id="a", ttl=4) as member:
        execute(interlock_url, "ALTER FUNCTION interlock.acquire_v1 RENAME TO acquire_v0")
        take_away(interlock_url, "workers##member/a")
        await until(lambda: "membership.ended" in caplog.text)
        assert not member.is_member


async def test_bad_input(locks: AsyncInterlock) -> None:
    for bad in ("", "a##b", "x" * 192):
        with pytest.raises(errors.ConfigurationError):
            locks.join(bad)
        with pytest.raises(errors.ConfigurationError):
            await locks.members(bad)
    for bad in ("", "a##b", "x" * 250):
        with pytest.raises(errors.ConfigurationError):
            locks.join("workers", id=bad)
    with pytest.raises(errors.ConfigurationError, match="written as JSON"):
        locks.join("workers", metadata={"a": object()})


def test_in_threads(sync_locks: Interlock) -> None:
    with sync_locks.join("workers", id="a", metadata={"zone": 1}) as member:
        assert (member.group, member.id, member.is_member) == ("workers", "a", True)
        assert [(found.id, found.metadata) for found in sync_locks.members("workers")] == [("a", {"zone": 1})]
    assert sync_locks.members("workers") == []


async def test_a_cancellation_at_the_end_of_the_block_ends_the_membership(locks: AsyncInterlock) -> None:
    await cancel_as_it_ends(locks.join("workers", ttl=60))
    assert await ids(locks) == []
