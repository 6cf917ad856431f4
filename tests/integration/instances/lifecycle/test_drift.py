"""The drift check: every kind of drift is found, reported once, and repaired."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import psycopg
import pytest

from interlock import errors
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.upkeep import repairs
from support.drift import Watch, watching
from support.failing_driver import FailingDriver
from support.instances import Plane, control_plane
from support.paper_driver import PaperDns, PaperDriver
from support.postgres import execute
from support.waiting import eventually

pytestmark = pytest.mark.timeout(200)

DRIFT = "SELECT kind, instance, name, closed_at IS NULL FROM interlock.instance_drift ORDER BY id"
TOLD = "SELECT kind, count(*) FROM interlock.event WHERE kind LIKE 'drift%%' GROUP BY kind ORDER BY kind"
OVER = """
    SELECT NOT EXISTS (SELECT FROM interlock.instance WHERE working)
       AND NOT EXISTS (SELECT FROM interlock.orchestration
                        WHERE finished_at IS NULL AND name <> 'instances.watch_health')
"""
STRAY = "INSERT INTO paper (id, name, state) VALUES (%s, %s, 'running')"


@pytest.fixture
async def watch(plane: Plane) -> AsyncIterator[Watch]:
    async with watching(plane) as watch:
        yield watch


async def ended(plane: Plane, orchestration: str) -> None:
    """A repair that succeeds."""
    lifecycle = plane.lifecycle
    kind = lifecycle.orphans.remove if orchestration.startswith("orphan-") else lifecycle.mend
    await plane.durable.handle(kind, orchestration).wait(50)


@pytest.mark.exhaustive
async def test_without_drift_there_are_no_findings(plane: Plane, watch: Watch) -> None:
    made, stopped, gone = await asyncio.gather(
        plane.created("shop", dns_name="db.example.com"), plane.created("other"), plane.created("third")
    )
    await asyncio.gather(plane.told(plane.instances.stop, stopped.id), plane.told(plane.instances.delete, gone.id))
    assert await watch.observe() == []
    assert watch.ever() == []
    assert execute(plane.url, "SELECT driver, trouble FROM interlock.instance_look") == [("paper", "")]
    assert (await plane.read(made.id)).working is False


DRIFTS = {
    "lost": ("vanished", "DELETE FROM paper WHERE id = %s"),
    "down": ("wrong_state", "UPDATE paper SET state = 'stopped' WHERE id = %s"),
    "torn": ("wrong_state", "UPDATE paper SET state = 'broken' WHERE id = %s"),
    "up": ("wrong_state", "UPDATE paper SET state = 'running' WHERE id = %s"),
    "nameless": ("dns", "DELETE FROM published WHERE id = %s"),
    "misled": ("dns", "UPDATE published SET target = '192.0.2.99' WHERE id = %s"),
}


async def test_each_drift_is_found_reported_once_and_repaired(plane: Plane, watch: Watch) -> None:
    instances = await asyncio.gather(*(plane.created(name, dns_name=f"{name}.example.com") for name in DRIFTS))
    made = {one.name: one for one in instances}
    made["up"] = await plane.told(plane.instances.stop, made["up"].id)
    for name, (_, drift) in DRIFTS.items():
        execute(plane.url, drift, made[name].id)
    wanted = sorted((kind, made[name].id) for name, (kind, _) in DRIFTS.items())
    for _ in range(2):
        assert sorted(await watch.observe()) == wanted
    assert sorted(execute(plane.url, DRIFT)) == sorted(
        (kind, made[name].id, name, True) for name, (kind, _) in DRIFTS.items()
    )
    assert execute(plane.url, TOLD) == [
        ("drift found: dns", 2),
        ("drift found: vanished", 1),
        ("drift found: wrong_state", 3),
    ]
    for one in made.values():
        assert (await plane.read(one.id)).orchestration == one.orchestration, "no request has told us to repair it"

    repairs = await asyncio.gather(*(plane.ask(watch.upkeep.repairs.repair, one.id) for one in await watch.open()))
    await asyncio.gather(*(ended(plane, str(one.repair)) for one in repairs))
    assert await watch.observe() == []
    assert [is_open for *_, is_open in execute(plane.url, DRIFT)] == [False] * len(DRIFTS)
    assert execute(plane.url, TOLD)[3:] == [
        ("drift over: dns", 2),
        ("drift over: vanished", 1),
        ("drift over: wrong_state", 3),
    ]
    for name, before in made.items():
        mended = await plane.read(before.id)
        there = execute(plane.url, "SELECT state FROM paper WHERE id = %s", before.id)
        if name == "lost":
            assert (mended.state, mended.error_code, mended.names_freed_at) == ("failed", "vanished", None)
        else:
            assert (mended.state, mended.error, mended.working) == (before.state, None, False)
            assert there == [(before.state,)]
            assert (mended.watcher is None) == (before.state == "stopped")
        published = execute(plane.url, "SELECT target FROM published WHERE id = %s", before.id)
        assert published == [(before.host,)]
    with pytest.raises(errors.NameTaken):
        await plane.create("lost")
    assert (await plane.told(plane.instances.delete, made["lost"].id)).state == "deleted"


@pytest.mark.exhaustive
async def test_remains_of_deleted_instances_and_orphans_are_removed(
    plane: Plane, paper: PaperDriver, watch: Watch
) -> None:
    made = await plane.created("shop")
    await plane.told(plane.instances.delete, made.id)
    execute(plane.url, STRAY, made.id, "shop")
    execute(plane.url, STRAY, "unheard-of", "stray")
    assert sorted(await watch.observe()) == sorted([("orphan", made.id), ("orphan", "unheard-of")])
    repairs = [await plane.ask(watch.upkeep.repairs.repair, one.id) for one in await watch.open()]
    await asyncio.gather(*(ended(plane, str(one.repair)) for one in repairs))
    assert await watch.observe() == []
    assert await paper.ids() == {}
    assert sorted(execute(plane.url, DRIFT)) == [
        ("orphan", made.id, "shop", False),
        ("orphan", "unheard-of", "stray", False),
    ]
    assert (await plane.read(made.id)).state == "deleted"


async def test_a_finding_is_closed_when_the_drift_is_over(plane: Plane, watch: Watch) -> None:
    made = await plane.created("shop")
    execute(plane.url, "UPDATE paper SET state = 'stopped'")
    execute(plane.url, STRAY, "unheard-of", "stray")
    assert sorted(await watch.observe()) == [("orphan", "unheard-of"), ("wrong_state", made.id)]
    execute(plane.url, "UPDATE paper SET state = 'broken' WHERE id = %s", made.id)
    execute(plane.url, "DELETE FROM paper WHERE id = 'unheard-of'")
    assert await watch.observe() == [("wrong_state", made.id)]
    assert "the instance is broken" in (await watch.open())[0].detail
    execute(plane.url, "UPDATE paper SET state = 'running'")
    assert await watch.observe() == []
    execute(plane.url, "UPDATE paper SET state = 'stopped'")
    assert await watch.observe() == [("wrong_state", made.id)]
    assert len(watch.ever()) == 3


async def test_one_repair_runs_at_a_time_and_none_for_closed_findings(plane: Plane, watch: Watch) -> None:
    await plane.created("shop")
    execute(plane.url, "UPDATE paper SET state = 'stopped'")
    await watch.observe()
    [finding] = await watch.open()
    repair = watch.upkeep.repairs.repair
    async with await psycopg.AsyncConnection.connect(plane.url) as connection:
        first = await repair(connection, finding.id)
        assert await repair(connection, finding.id) == first
    await ended(plane, str(first.repair))
    assert await watch.observe() == []
    for number in (finding.id, finding.id + 1):
        with pytest.raises(errors.DriftUnknown, match=f"no open finding of drift {number}"):
            await plane.ask(repair, number)


async def repaired(plane: Plane, watch: Watch) -> list[str]:
    """Run the automatic repair. Returns the instances that it tried, when it has ended."""
    before = {one.repair for one in await watch.open()}
    async with watch.upkeep.drift_lease.acquire(timeout=50) as grant:
        await watch.upkeep.repairs.repair_all(grant)
    begun = [one for one in await watch.open() if one.repair not in before]
    for one in begun:
        with suppress(errors.OrchestrationEnded):
            await ended(plane, str(one.repair))
    await asyncio.to_thread(eventually, lambda: execute(plane.url, OVER) == [(True,)])
    return [one.instance for one in begun]


async def test_with_drift_repair_safe_repairs_start_by_themselves(plane: Plane, watch: Watch) -> None:
    made, gone, lost = await asyncio.gather(*map(plane.created, ("shop", "old", "unmounted")))
    await plane.told(plane.instances.delete, gone.id)
    execute(plane.url, "UPDATE paper SET state = 'stopped'")
    execute(plane.url, "DELETE FROM paper WHERE id = %s", lost.id)
    execute(plane.url, STRAY, gone.id, "old")
    execute(plane.url, STRAY, "unheard-of", "stray")
    assert len(await watch.observe()) == 4
    assert sorted(await repaired(plane, watch)) == sorted([made.id, gone.id])
    assert sorted(await watch.observe()) == [("orphan", "unheard-of"), ("vanished", lost.id)]
    assert (await plane.read(made.id)).state == "running"

    execute(plane.url, STRAY, lost.id, "unmounted")  # its disk is back
    assert await watch.observe() == [("orphan", "unheard-of")]
    assert ((back := await plane.read(lost.id)).state, back.error) == ("running", None)


@pytest.fixture
def failing(url: str, real: LocalDriver) -> FailingDriver:
    return FailingDriver(lambda: url, lambda: real)


async def test_an_unreachable_driver_changes_no_finding(url: str, failing: FailingDriver) -> None:
    async with control_plane(url, failing, dns=PaperDns(lambda: url)) as plane, watching(plane) as watch:
        made, other = await asyncio.gather(plane.created("shop"), plane.created("other"))
        execute(url, "DELETE FROM paper WHERE id = %s", made.id)
        assert await watch.observe() == [("vanished", made.id)]
        failing.fails = "ids"
        execute(url, "DELETE FROM paper WHERE id = %s", other.id)
        execute(url, STRAY, made.id, "shop")
        assert await watch.observe() == [("vanished", made.id)]
        [(trouble,)] = execute(url, "SELECT trouble FROM interlock.instance_look")
        assert trouble == "The driver does not answer: check it."
        failing.fails = "every look"
        assert await watch.observe() == [("vanished", made.id)]
        failing.fails = ""
        assert await watch.observe() == [("vanished", other.id)]


async def test_an_instance_that_cannot_be_observed_does_not_stop_the_check(url: str, failing: FailingDriver) -> None:
    async with control_plane(url, failing, dns=PaperDns(lambda: url)) as plane, watching(plane) as watch:
        made, other = await asyncio.gather(plane.created("shop"), plane.created("other"))
        execute(url, "UPDATE paper SET state = 'stopped'")
        failing.fails = other.id
        assert await watch.observe() == [("wrong_state", made.id)]
        [(trouble,)] = execute(url, "SELECT trouble FROM interlock.instance_look")
        told = "1 of 2 instances could not be checked completely; other: ValueError: invalid literal"
        assert trouble == told
        failing.fails = ""
        assert sorted(await watch.observe()) == sorted([("wrong_state", made.id), ("wrong_state", other.id)])
        assert execute(url, "SELECT trouble FROM interlock.instance_look") == [("",)]


@pytest.mark.exhaustive
async def test_failed_repairs_are_retried_less_often_and_block_no_other(
    url: str, failing: FailingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repairs, "_AT_ONCE", 1)
    async with control_plane(url, failing, dns=PaperDns(lambda: url)) as plane, watching(plane) as watch:
        made = [await plane.created(name) for name in ("shop", "other")]
        execute(url, "UPDATE paper SET state = 'stopped'")
        await watch.observe()
        failing.fails = "stop"  # which is how it is mended
        first, second = await repaired(plane, watch), await repaired(plane, watch)
        assert sorted(first + second) == sorted(one.id for one in made)

        monkeypatch.setattr(repairs, "_AT_ONCE", 20)
        execute(url, "UPDATE interlock.instance_drift SET found_at = found_at - interval '1 hour'")
        assert await repaired(plane, watch) == []  # they were tried at an age of an hour, and just now
        older = "UPDATE interlock.orchestration SET recorded_at = recorded_at - interval '40 minutes'"
        execute(url, f"{older} WHERE id IN (SELECT repair FROM interlock.instance_drift)")
        assert len(await repaired(plane, watch)) == 2  # at an age of 20 minutes, and 40 minutes ago


async def test_a_passing_difference_is_no_drift(url: str, failing: FailingDriver) -> None:
    async with control_plane(url, failing, dns=PaperDns(lambda: url)) as plane, watching(plane) as watch:
        await plane.created("shop")
        failing.fails = "one look"
        assert await watch.observe() == []
        assert watch.ever() == []
        assert failing.fails == ""


async def test_a_step_overtaken_by_the_state_is_not_repeated(url: str, failing: FailingDriver) -> None:
    """A record that says that something could not be removed."""
    async with control_plane(url, failing, dns=PaperDns(lambda: url)) as plane, watching(plane) as watch:
        made = await plane.created("shop")
        failing.fails = "remove"
        assert (await plane.told(plane.instances.delete, made.id)).state == "failed"
        assert await watch.observe() == []
        assert watch.ever() == []
