"""What the drivers have is compared with the records: every kind of drift is found, told once, and put right."""

from collections.abc import AsyncIterator

import psycopg
import pytest

from interlock import errors
from interlock.instances.drivers.local import LocalDriver
from support.failing_driver import FailingDriver
from support.instances import Plane, control_plane
from support.keeping import Watch, watching
from support.paper_driver import PaperDns, PaperDriver
from support.postgres import execute

pytestmark = pytest.mark.timeout(200)

DRIFT = "SELECT kind, instance, name, closed_at IS NULL FROM interlock.instance_drift ORDER BY id"
TOLD = "SELECT kind FROM interlock.instance_event WHERE kind LIKE 'drift%%' ORDER BY recorded_at, kind"
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


async def test_where_nothing_has_drifted_nothing_is_found(plane: Plane, watch: Watch) -> None:
    made = await plane.created("shop", dns_name="db.example.com")
    stopped = await plane.created("other")
    await plane.told(plane.instances.stop, stopped.id)
    gone = await plane.created("third")
    await plane.told(plane.instances.delete, gone.id)
    assert await watch.look() == []
    assert watch.ever() == []
    assert execute(plane.url, "SELECT driver, trouble FROM interlock.instance_look") == [("paper", "")]
    assert (await plane.read(made.id)).working is False


@pytest.mark.parametrize(
    ("drift", "kind"),
    [
        ("DELETE FROM paper", "vanished"),
        ("UPDATE paper SET state = 'stopped'", "wrong_state"),
        ("UPDATE paper SET state = 'broken'", "wrong_state"),
        ("DELETE FROM published", "dns"),
        ("UPDATE published SET target = '192.0.2.99'", "dns"),
    ],
)
async def test_drift_of_one_that_runs_is_found_told_once_and_repaired(
    plane: Plane, watch: Watch, drift: str, kind: str
) -> None:
    made = await plane.created("shop", dns_name="db.example.com")
    execute(plane.url, drift)
    for _ in range(2):
        assert await watch.look() == [(kind, made.id)]
    assert execute(plane.url, DRIFT) == [(kind, made.id, "shop", True)]
    assert execute(plane.url, TOLD) == [(f"drift found: {kind}",)]
    assert (await plane.read(made.id)).orchestration == made.orchestration, "nobody has told us to repair it"

    await ended(plane, await watch.repair())
    assert await watch.look() == []
    assert execute(plane.url, DRIFT) == [(kind, made.id, "shop", False)]
    assert execute(plane.url, TOLD) == [(f"drift found: {kind}",), (f"drift over: {kind}",)]
    mended = await plane.read(made.id)
    if kind == "vanished":
        assert (mended.state, mended.error_code, mended.names_freed_at) == ("failed", "vanished", None)
        with pytest.raises(errors.NameTaken):
            await plane.create("shop")
        assert (await plane.told(plane.instances.delete, made.id)).state == "deleted"
    else:
        assert (mended.state, mended.error, mended.working) == ("running", None, False)
        assert execute(plane.url, "SELECT state FROM paper") == [("running",)]
        assert execute(plane.url, "SELECT target, id FROM published") == [(made.host, made.id)]


async def test_one_that_is_meant_to_be_stopped_and_runs_is_stopped(plane: Plane, watch: Watch) -> None:
    made = await plane.created("shop", dns_name="db.example.com")
    await plane.told(plane.instances.stop, made.id)
    execute(plane.url, "UPDATE paper SET state = 'running'")
    assert await watch.look() == [("wrong_state", made.id)]
    await ended(plane, await watch.repair())
    assert await watch.look() == []
    mended = await plane.read(made.id)
    assert (mended.state, mended.error, mended.watcher) == ("stopped", None, None)
    assert execute(plane.url, "SELECT state FROM paper") == [("stopped",)]


async def test_what_is_left_of_a_deleted_one_is_removed_and_so_is_what_no_record_knows(
    plane: Plane, paper: PaperDriver, watch: Watch
) -> None:
    made = await plane.created("shop")
    await plane.told(plane.instances.delete, made.id)
    for id, name in ((made.id, "shop"), ("unheard-of", "stray")):  # noqa: A001
        execute(plane.url, STRAY, id, name)
        assert await watch.look() == [("orphan", id)]
        await ended(plane, await watch.repair())
        assert await watch.look() == []
        assert await paper.ids() == {}
    assert execute(plane.url, DRIFT) == [
        ("orphan", made.id, "shop", False),
        ("orphan", "unheard-of", "stray", False),
    ]
    assert (await plane.read(made.id)).state == "deleted"


async def test_what_was_found_is_closed_when_it_is_no_longer_so(plane: Plane, watch: Watch) -> None:
    made = await plane.created("shop")
    execute(plane.url, "UPDATE paper SET state = 'stopped'")
    execute(plane.url, STRAY, "unheard-of", "stray")
    assert sorted(await watch.look()) == [("orphan", "unheard-of"), ("wrong_state", made.id)]
    execute(plane.url, "UPDATE paper SET state = 'broken' WHERE id = %s", made.id)
    execute(plane.url, "DELETE FROM paper WHERE id = 'unheard-of'")
    assert await watch.look() == [("wrong_state", made.id)]
    assert "it is broken" in (await watch.open())[0].detail
    execute(plane.url, "UPDATE paper SET state = 'running'")
    assert await watch.look() == []
    execute(plane.url, "UPDATE paper SET state = 'stopped'")
    assert await watch.look() == [("wrong_state", made.id)]
    assert len(watch.ever()) == 3


async def test_one_repair_at_a_time_and_none_of_what_is_over(plane: Plane, watch: Watch) -> None:
    await plane.created("shop")
    execute(plane.url, "UPDATE paper SET state = 'stopped'")
    await watch.look()
    [finding] = await watch.open()
    repair = watch.keepers.repairs.repair
    async with await psycopg.AsyncConnection.connect(plane.url) as connection:
        first = await repair(connection, finding.id)
        assert await repair(connection, finding.id) == first
    await ended(plane, str(first.repair))
    assert await watch.look() == []
    for number in (finding.id, finding.id + 1):
        with pytest.raises(errors.DriftUnknown, match=f"no drift {number} that is still so"):
            await plane.ask(repair, number)


async def test_where_it_is_told_to_everything_is_repaired_but_what_no_record_knows(plane: Plane, watch: Watch) -> None:
    made = await plane.created("shop")
    gone = await plane.created("old")
    await plane.told(plane.instances.delete, gone.id)
    execute(plane.url, "UPDATE paper SET state = 'stopped'")
    execute(plane.url, STRAY, gone.id, "old")
    execute(plane.url, STRAY, "unheard-of", "stray")
    assert len(await watch.look()) == 3
    async with watch.keepers.drift_lease.acquire(timeout=50) as grant:
        await watch.keepers.repairs.repair_all(grant)
    repairs = [one.repair for one in await watch.open() if one.repair]
    assert len(repairs) == 2
    for repair in repairs:
        await ended(plane, repair)
    assert await watch.look() == [("orphan", "unheard-of")]
    assert (await plane.read(made.id)).state == "running"


@pytest.fixture
def failing(url: str, real: LocalDriver) -> FailingDriver:
    return FailingDriver(lambda: url, lambda: real)


async def test_a_driver_that_does_not_answer_tells_nothing(url: str, failing: FailingDriver) -> None:
    async with control_plane(url, failing, dns=PaperDns(lambda: url)) as plane, watching(plane) as watch:
        made = await plane.created("shop")
        other = await plane.created("other")
        execute(url, "DELETE FROM paper WHERE id = %s", made.id)
        assert await watch.look() == [("vanished", made.id)]
        failing.fails = "ids"
        execute(url, "DELETE FROM paper WHERE id = %s", other.id)
        execute(url, STRAY, made.id, "shop")
        assert await watch.look() == [("vanished", made.id)]
        [(trouble,)] = execute(url, "SELECT trouble FROM interlock.instance_look")
        assert trouble == "Nobody answers: look there."
        failing.fails = "every look"
        assert await watch.look() == [("vanished", made.id)]
        failing.fails = ""
        assert await watch.look() == [("vanished", other.id)]


async def test_what_is_over_in_a_moment_is_no_drift(url: str, failing: FailingDriver) -> None:
    async with control_plane(url, failing, dns=PaperDns(lambda: url)) as plane, watching(plane) as watch:
        await plane.created("shop")
        failing.fails = "one look"
        assert await watch.look() == []
        assert watch.ever() == []
        assert failing.fails == ""


async def test_what_is_told_to_be_left_is_not_told_again(url: str, failing: FailingDriver) -> None:
    """A record that says that something could not be removed."""
    async with control_plane(url, failing, dns=PaperDns(lambda: url)) as plane, watching(plane) as watch:
        made = await plane.created("shop")
        failing.fails = "remove"
        assert (await plane.told(plane.instances.delete, made.id)).state == "failed"
        assert await watch.look() == []
        assert watch.ever() == []
