"""`interlock lease` and other commands with the leases in a table of DynamoDB."""

import asyncio
import json
import time
from typing import Any

import pytest

from interlock import AsyncInterlock
from interlock.errors import LeaseLost, LeaseTimeout
from support.programs import interlock


@pytest.fixture
def url(dynamodb_url: str) -> str:
    return dynamodb_url


async def told(url: str, *arguments: str) -> list[str]:
    done = await asyncio.to_thread(interlock, *arguments, url=url)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


async def facts(url: str, *arguments: str) -> Any:
    return json.loads("\n".join(await told(url, *arguments, "--json")))


async def test_list_and_show_name_the_holders(url: str) -> None:
    async with AsyncInterlock(url, replica="web-1") as locks:
        await (await locks.lease("done").acquire()).release()
        grant = await locks.lease("feeds", metadata={"job": "nightly"}).acquire()
        [listed] = await facts(url, "lease", "list")
        assert (listed["name"], listed["state"], listed["waiters"]) == ("feeds", "held", None)
        assert await facts(url, "lease", "list", "do") == []
        holder, since, heartbeat, metadata, waiting = await told(url, "why", "feeds")
        assert holder.startswith("The lease 'feeds' is held by web-1 (process ")
        assert since.endswith(f"with the token {grant.token}.")
        assert heartbeat.endswith("(its ttl is 30 s).")
        assert metadata == 'Its metadata: {"job": "nightly"}'
        assert waiting == "Its waiters are not known: this database keeps no queue."
        shown = await facts(url, "lease", "show", "done")
        assert (shown["state"], shown["holder"], shown["last_holder"]["name"]) == ("free", None, "web-1")
        async with locks.join("workers", id="a"):
            assert [member["id"] for member in await facts(url, "members", "workers")] == ["a"]


@pytest.mark.exhaustive
async def test_a_broken_lease_is_lost_and_not_granted_while_its_holder_may_trust_it(url: str) -> None:
    async with (
        AsyncInterlock(url, replica="web-1") as locks,
        AsyncInterlock(url, replica="web-2") as others,
    ):
        grant = await locks.lease("feeds", ttl=60).acquire()
        [taken, _, others_] = await told(url, "lease", "break", "feeds", "--yes", "--reason", "it hangs")
        assert taken.startswith("The lease 'feeds' was taken from web-1")
        assert others_.endswith("and in 60 s at the latest.")
        assert await others.lease("feeds").try_acquire() is None
        assert await others.lease("feeds").holders() == []
        shown = await facts(url, "lease", "show", "feeds")
        assert (shown["state"], shown["holder"]) == ("broken", None)
        assert (shown["intervention"]["token"], shown["intervention"]["reason"]) == (grant.token, "it hangs")
        again = await asyncio.to_thread(interlock, "lease", "break", "feeds", "--yes", url=url)
        assert (again.returncode, again.stdout) == (1, "")
        assert "The lease 'feeds' is not held: nothing was changed." in again.stderr
        locks.engine().renew_soon(grant)
        await grant.wait_lost()
        with pytest.raises(LeaseLost):
            grant.check()
        with pytest.raises(LeaseTimeout):
            await others.lease("feeds").acquire(timeout=0.5)


@pytest.mark.exhaustive
async def test_a_waiter_takes_a_broken_lease_after_watching_it(url: str) -> None:
    async with (
        AsyncInterlock(url, replica="web-1") as locks,
        AsyncInterlock(url, replica="web-2") as others,
    ):
        while True:
            grant = await locks.lease("feeds", ttl=3).acquire()
            broken = await asyncio.to_thread(interlock, "lease", "break", "feeds", "--yes", url=url)
            if broken.returncode == 0:
                break
            assert "is not held" in broken.stderr  # the machine stood still for as long, and it was lost by itself
            await grant.wait_lost()
        assert broken.stderr == ""
        assert (await others.lease("feeds").acquire()).token > grant.token
        assert (await facts(url, "lease", "show", "feeds"))["intervention"] is None


async def test_broken_now_it_is_free_at_once(url: str) -> None:
    async with (
        AsyncInterlock(url, replica="web-1") as locks,
        AsyncInterlock(url, replica="web-2") as others,
    ):
        grant = await locks.lease("feeds", ttl=3600).acquire()
        await told(url, "lease", "break", "feeds", "--yes", "--now")
        shown = await facts(url, "lease", "show", "feeds")
        assert (shown["state"], shown["intervention"]["immediate"]) == ("free", True)
        next_one = await others.lease("feeds").try_acquire()
        assert next_one is not None
        assert next_one.token > grant.token
        assert not await grant.release(), "it has nothing to give back"


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        ("lease show nothing", 1, "There is no lease 'nothing' in this database"),
        ("lease break --yes feeds --terminate", 78, "DynamoDB has no sessions: leave --terminate out"),
        ("lease waits", 78, "DynamoDB keeps no queue"),
        ("lease list --waited", 78, "leave --waited out"),
        ("claim list", 78, "A dynamodb:// database keeps only leases"),
    ],
)
async def test_an_impossible_command_is_explained(url: str, command: str, status: int, words: str) -> None:
    async with AsyncInterlock(url) as locks, locks.lease("feeds"):
        done = await asyncio.to_thread(interlock, *command.split(), url=url)
        assert (done.returncode, done.stdout) == (status, "")
        [line] = done.stderr.splitlines()
        assert words in line


async def test_commands_run_under_a_lease_there(url: str) -> None:
    assert await told(url, "lock", "run", "nightly", "--", "echo", "runs") == ["runs"]


def test_a_lease_is_kept_after_its_command_where_the_clocks_difference_is_bounded(url: str) -> None:
    bounded = f"{url}{'&' if '?' in url else '?'}max_clock_skew=0.5"
    run = ("lock", "run", "nightly", "--no-wait", "--at-least", "4s", "--", "echo", "runs")
    began = time.monotonic()
    assert interlock(*run, url=bounded).stdout == "runs\n"
    again = interlock(*run, url=bounded)
    assert (again.returncode, again.stdout) == (75, "")
    while again.returncode == 75:
        again = interlock(*run, url=bounded)
    assert again.stdout == "runs\n"
    assert time.monotonic() - began >= 4
