"""An instance of which one step fails permanently."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from interlock import errors
from interlock.durable import worker
from interlock.instances.drivers.local import LocalDriver
from support.failing_driver import FailingDns, FailingDriver
from support.instances import Plane, control_plane
from support.postgres import execute
from support.waiting import eventually

HELD = "SELECT scope, name FROM interlock.claim WHERE released_at IS NULL ORDER BY scope, name"
PUBLISHED = "SELECT name FROM published"

pytestmark = pytest.mark.timeout(200)


@pytest.fixture
def driver(url: str, real: LocalDriver) -> FailingDriver:
    return FailingDriver(lambda: url, lambda: real)


@pytest.fixture
async def plane(url: str, driver: FailingDriver) -> AsyncIterator[Plane]:
    async with control_plane(url, driver, dns=FailingDns(driver, lambda: url)) as plane:
        yield plane


@pytest.mark.exhaustive(beyond=2)
@pytest.mark.parametrize(
    ("step", "code", "words"),
    [
        ("check", "bad_spec", "no such version"),
        ("before provision", "driver_unreachable", "The driver does not answer: check it"),
        ("after provision", "driver_unreachable", "The driver no longer answers"),
        ("look", "not_running", "It fell down"),
        ("password", "access_denied", "password authentication failed"),
        ("publish", "dns_foreign", "records of another owner"),
    ],
)
async def test_creation_that_fails_leaves_nothing_but_the_error(
    plane: Plane, driver: FailingDriver, step: str, code: str, words: str
) -> None:
    driver.fails = step
    failed = await plane.created("shop", dns_name="db.example.com")
    assert (failed.state, failed.working, failed.error_code) == ("failed", False, code)
    assert words in (failed.error or "")
    assert "activity" not in (failed.error or "")
    assert (await driver.ids(), execute(plane.url, PUBLISHED), execute(plane.url, HELD)) == ({}, [], [])

    driver.fails = ""
    again = await plane.created("shop", dns_name="db.example.com")
    assert again.state == "running"
    assert (await plane.told(plane.instances.delete, failed.id)).state == "deleted"
    assert [name for _, name in execute(plane.url, HELD)] == ["db.example.com", "shop"]


@pytest.mark.exhaustive
async def test_an_instance_that_cannot_be_undone_keeps_its_names_until_it_is_deleted(
    plane: Plane, driver: FailingDriver
) -> None:
    driver.fails = "password"
    driver.remove = _refuse  # type: ignore[method-assign]
    failed = await plane.created("shop", dns_name="db.example.com")
    assert (failed.state, failed.error_code) == ("failed", "access_denied")
    assert "could not be undone, so delete the instance" in (failed.error or "")
    with pytest.raises(errors.NameTaken, match="failed"):
        await plane.create("shop")

    del driver.remove
    driver.fails = ""
    assert (await plane.told(plane.instances.delete, failed.id)).state == "deleted"
    assert (await driver.ids(), execute(plane.url, HELD)) == ({}, [])


@pytest.mark.exhaustive
async def test_creation_that_is_cancelled_is_undone(plane: Plane, driver: FailingDriver) -> None:
    driver.fails = "slow provision"
    asked = await plane.create("shop", dns_name="db.example.com")
    await driver.reached.wait()
    await plane.durable.cancel(asked.orchestration, "not wanted any more")
    failed = await plane.done(asked)
    assert (failed.state, failed.error) == ("failed", "The orchestration was cancelled: not wanted any more.")
    assert (await driver.ids(), execute(plane.url, HELD)) == ({}, [])


async def test_an_instance_that_is_being_created_can_be_deleted(plane: Plane, driver: FailingDriver) -> None:
    driver.fails = "slow provision"
    asked = await plane.create("shop", dns_name="db.example.com")
    await driver.reached.wait()
    with pytest.raises(errors.InstanceBusy) as busy:
        await plane.ask(plane.instances.stop, asked.id)
    assert busy.value.orchestration == asked.orchestration
    gone = await plane.told(plane.instances.delete, asked.id)
    assert (gone.state, gone.error) == ("deleted", None)
    assert (await driver.ids(), execute(plane.url, HELD)) == ({}, [])
    assert {event.kind for event in await plane.events(asked.id)}.isdisjoint({"fail", "come_up"})


async def test_the_step_of_a_creation_that_was_deleted_meanwhile_ends_with_one_line_in_the_log(
    plane: Plane, driver: FailingDriver, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_CHECK_EVERY", 60.0)  # the step itself finds out that it was superseded
    caplog.set_level(logging.INFO, "interlock")
    driver.fails = "slow provision"
    asked = await plane.create("shop")
    await driver.reached.wait()
    assert (await plane.told(plane.instances.delete, asked.id)).state == "deleted"
    driver.held.set()
    [record] = await asyncio.to_thread(
        eventually, lambda: [one for one in caplog.records if one.name == "interlock.durable.worker"]
    )
    assert (record.levelname, record.exc_info) == ("INFO", None)
    assert "activity.superseded" in record.getMessage()


async def test_names_are_held_until_it_is_seen_to_be_gone(plane: Plane, driver: FailingDriver) -> None:
    made = await plane.created("shop", dns_name="db.example.com")
    driver.fails = "slow remove"
    asked = await plane.ask(plane.instances.delete, made.id)
    await driver.reached.wait()
    assert await plane.ask(plane.instances.delete, made.id) == asked
    for wishes in ({"name": "shop"}, {"name": "other", "dns_name": "db.example.com"}):
        with pytest.raises(errors.NameTaken, match="deleting"):
            await plane.create(**wishes)
    assert (await plane.read(made.id)).state == "deleting"
    driver.held.set()
    assert (await plane.done(asked)).state == "deleted"
    assert (await driver.ids(), execute(plane.url, HELD)) == ({}, [])


async def test_a_failed_deletion_keeps_the_names_and_can_be_repeated(plane: Plane, driver: FailingDriver) -> None:
    made = await plane.created("shop", dns_name="db.example.com")
    driver.fails = "remove"
    failed = await plane.told(plane.instances.delete, made.id)
    assert (failed.state, failed.error_code, failed.working) == ("failed", "driver_unreachable", False)
    assert [name for _, name in execute(plane.url, HELD)] == ["db.example.com", "shop"]
    with pytest.raises(errors.IllegalTransition):
        await plane.ask(plane.instances.start, made.id)
    driver.fails = ""
    assert (await plane.told(plane.instances.delete, made.id)).state == "deleted"


async def test_a_stop_that_fails_ends_where_the_instance_is(plane: Plane, driver: FailingDriver) -> None:
    made = await plane.created("shop")
    driver.fails = "stop"
    tried = await plane.told(plane.instances.stop, made.id)
    assert (tried.state, tried.error_code, tried.working) == ("running", "driver_unreachable", False)
    assert tried.watcher not in (None, made.watcher)
    driver.fails = ""
    stopped = await plane.told(plane.instances.stop, made.id)
    assert (stopped.state, stopped.error) == ("stopped", None)
    with pytest.raises(errors.IllegalTransition, match="shop is stopped and cannot restart"):
        await plane.ask(plane.instances.restart, made.id)
    with pytest.raises(errors.IllegalTransition, match="shop is stopped and cannot be changed"):
        await plane.ask(plane.instances.reset_password, made.id)


async def test_an_orchestration_that_is_not_named_any_more_writes_nothing(plane: Plane, driver: FailingDriver) -> None:
    driver.fails = "slow provision"
    asked = await plane.create("shop")
    await driver.reached.wait()
    execute(plane.url, "UPDATE interlock.instance SET orchestration = 'another' WHERE id = %s", asked.id)
    before = (await plane.read(asked.id), await plane.events(asked.id))
    driver.held.set()
    with pytest.raises(errors.OrchestrationFailed) as failure:
        await plane.durable.handle(plane.lifecycle.create, asked.orchestration).wait(50)
    assert failure.value.code == "record_overtaken"
    await plane.done(asked)
    assert (await plane.read(asked.id), await plane.events(asked.id)) == before
    assert await driver.ids() == {asked.id: "shop"}


async def _refuse(id: str) -> None:  # noqa: A002
    raise errors.DriverUnreachable("The driver does not answer: check it.")
