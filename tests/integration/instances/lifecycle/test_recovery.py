"""After every failure of an instance there is a request that helps, and not only `delete`."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from interlock import errors
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Spec
from interlock.instances.records import InstanceRecord
from support.failing_driver import FailingDriver
from support.instances import QUICK, Plane, control_plane
from support.paper_driver import PaperDns
from support.postgres import execute
from support.waiting import eventually

pytestmark = pytest.mark.timeout(200)

IMPATIENT = replace(QUICK, timeout=0.2)


@pytest.fixture
def driver(url: str, real: LocalDriver) -> FailingDriver:
    return FailingDriver(lambda: url, lambda: real)


@pytest.fixture
async def plane(url: str, driver: FailingDriver) -> AsyncIterator[Plane]:
    async with control_plane(url, driver, timing=IMPATIENT) as plane:
        yield plane


async def told(plane: Plane, verb: Any, *args: Any, **wishes: Any) -> InstanceRecord:
    """Like `plane.told`, and started at once, as the server does it."""
    asked = await plane.ask(verb, *args, **wishes)
    await plane.durable.begin(asked.orchestration)
    return await plane.done(asked)


async def test_parameters_that_prevent_a_start_can_be_reverted(plane: Plane, driver: FailingDriver) -> None:
    made = await told(plane, plane.instances.create, "shop", driver="paper")
    driver.fails = "start"
    fallen = await told(plane, plane.instances.set_parameters, made.id, {"max_connections": 100_000})
    assert (fallen.state, fallen.error_code, fallen.parameters) == (
        "stopped",
        "not_running",
        {"max_connections": "100000"},
    )
    execute(plane.url, "UPDATE paper SET state = 'broken'")  # another process tries to bring it up again and again

    driver.fails = ""
    mended = await told(plane, plane.instances.set_parameters, made.id, {"max_connections": 10})
    assert (mended.state, mended.error, mended.parameters) == ("stopped", None, {"max_connections": "10"})
    assert (await driver.observe(made.id)).state == "stopped"
    assert (await told(plane, plane.instances.start, made.id)).state == "running"


@pytest.mark.exhaustive
async def test_a_running_instance_may_take_time_to_become_reachable(url: str, driver: FailingDriver) -> None:
    async with control_plane(url, driver) as plane:
        driver.deaf = QUICK.retry.attempts + 2
        made = await told(plane, plane.instances.create, "shop", driver="paper")
        assert (made.state, made.error, driver.deaf) == ("running", None, 0)


async def test_an_instance_that_runs_and_never_answers_is_undone(plane: Plane, driver: FailingDriver) -> None:
    driver.deaf = 1_000_000
    failed = await told(plane, plane.instances.create, "shop", driver="paper")
    assert (failed.state, failed.error_code, await driver.ids()) == ("failed", "database_unreachable", {})
    assert "The instance runs, but has not answered after" in (failed.error or "")


@pytest.mark.exhaustive
async def test_an_instance_that_stays_starting_counts_as_running_and_accepts_requests(
    plane: Plane, driver: FailingDriver
) -> None:
    made = await told(plane, plane.instances.create, "shop", driver="paper")
    driver.fails = "midway"
    tried = await told(plane, plane.instances.restart, made.id)
    assert (tried.state, tried.working, tried.error_code) == ("running", False, "not_stopped")
    assert "It waits for a node." in (tried.error or "")
    driver.fails = ""
    assert (await told(plane, plane.instances.stop, made.id)).state == "stopped"


async def test_work_whose_clean_up_was_ended_blocks_no_request(plane: Plane, driver: FailingDriver) -> None:
    made = await told(plane, plane.instances.create, "shop", driver="paper")
    driver.fails = "every look"
    asked = await plane.ask(plane.instances.stop, made.id)
    await _ended_for_good(plane, asked.orchestration)
    stuck = await plane.read(made.id)
    assert (stuck.state, stuck.working) == ("stopping", True)

    driver.fails = ""
    with pytest.raises(errors.IllegalTransition, match="No orchestration works on the instance shop"):
        await plane.ask(plane.instances.cancel, made.id)
    stopped = await told(plane, plane.instances.stop, made.id)
    assert (stopped.state, stopped.working, stopped.error) == ("stopped", False, None)


async def test_a_deletion_whose_clean_up_was_ended_can_be_requested_again(plane: Plane, driver: FailingDriver) -> None:
    made = await told(plane, plane.instances.create, "shop", driver="paper")
    driver.fails = "slow remove"
    asked = await plane.ask(plane.instances.delete, made.id)
    await driver.reached.wait()
    execute(plane.url, NOT_CLEANED_UP, asked.orchestration)
    await _ended_for_good(plane, asked.orchestration)
    stuck = await plane.read(made.id)
    assert (stuck.state, stuck.working) == ("deleting", True)

    driver.held.set()
    assert (await told(plane, plane.instances.delete, made.id)).state == "deleted"


async def test_abandoning_an_unreachable_instance_frees_its_names(url: str, driver: FailingDriver) -> None:
    async with control_plane(url, driver, dns=PaperDns(lambda: url)) as plane:
        lost = await told(plane, plane.instances.create, "shop", driver="paper", dns_name="db.example.com")
        with pytest.raises(errors.IllegalTransition, match="shop is running: delete it, and abandon it only if"):
            await plane.ask(plane.instances.abandon, lost.id)
        driver.fails = "remove"
        assert (await told(plane, plane.instances.delete, lost.id)).state == "failed"

        driver.fails = "every look"
        gone = await told(plane, plane.instances.abandon, lost.id)
        assert (gone.state, gone.error, gone.working) == ("deleted", None, False)
        with pytest.raises(errors.InstanceUnknown, match="is deleted"):
            await plane.ask(plane.instances.abandon, lost.id)
        assert execute(url, "SELECT name FROM interlock.claim WHERE released_at IS NULL") == []
        assert execute(url, "SELECT name FROM published") == []
        assert await driver.ids() == {lost.id: "shop"}, "the driver was not called"
        driver.fails = ""
        again = await told(plane, plane.instances.create, "shop", driver="paper", dns_name="db.example.com")
        assert again.state == "running"


async def test_any_text_of_a_driver_can_be_recorded(
    plane: Plane, driver: FailingDriver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "interlock.durable")  # what pytest keeps of the log has to be UTF-8

    async def check(spec: Spec) -> None:
        raise errors.BadSpec("No such version: \0 \udcff.")

    driver.check = check  # type: ignore[method-assign]
    failed = await told(plane, plane.instances.create, "shop", driver="paper")
    assert (failed.state, failed.error_code) == ("failed", "bad_spec")
    assert (failed.error or "").endswith("No such version: ? ?.")
    assert (await plane.events(failed.id))[0].detail == failed.error


async def test_an_instance_that_a_late_step_recreates_is_removed_again(url: str, driver: FailingDriver) -> None:
    async with control_plane(url, driver) as plane:
        driver.fails = "late provision"
        asked = await plane.create("shop")
        await driver.reached.wait()
        gone = await told(plane, plane.instances.delete, asked.id)
        assert (gone.state, gone.error, await driver.ids()) == ("deleted", None, {})


NOT_CLEANED_UP = """
    INSERT INTO interlock.orchestration (id, name, version, input, recorded_at, cancel_requested_at)
    SELECT id || ':cleanup', cleanup, cleanup_version, input, recorded_at, now()
      FROM interlock.orchestration WHERE id = %s
"""
"""Its clean-up is cancelled before it begins."""

KNOWN = "SELECT 1 FROM interlock.orchestration WHERE id = %s"
FINISHED = KNOWN + " AND finished_at IS NOT NULL"


async def _ended_for_good(plane: Plane, id: str) -> None:  # noqa: A002
    """An operator cancels all unfinished orchestrations."""
    for each in (id, f"{id}:cleanup"):
        await asyncio.to_thread(eventually, partial(execute, plane.url, KNOWN, each), within=60)
        await plane.durable.cancel(each, "it hangs")
        await asyncio.to_thread(eventually, partial(execute, plane.url, FINISHED, each), within=60)
