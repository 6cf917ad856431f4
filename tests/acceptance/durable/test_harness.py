"""Every activity and every orchestration of every domain, repeated and killed in between."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from signal import SIGKILL
from typing import Any

import pytest

from interlock.durable.declarations import Activity
from interlock.durable.replica import AsyncDurable
from support.durable_harness import DOMAINS, activities, asked, in_the_product, listed, orchestrations, recorded
from support.durable_samples import Domain, Sample
from support.durable_victim import VICTIMS, perform
from support.durable_worker import Worker, workers
from support.postgres import execute

ACTIVITIES = pytest.mark.parametrize(
    ("domain", "activity"), activities(), ids=[activity.name for _, activity in activities()]
)


def test_nothing_is_left_out() -> None:
    """An activity or an orchestration without a sample cannot be tested, so it is refused."""
    for domain in DOMAINS:
        assert {one.name for part in domain.parts for one in part.activities} == set(domain.activities)
        assert {one.name for part in domain.parts for one in part.orchestrations} == set(domain.orchestrations)
    assert in_the_product() <= listed()


@pytest.fixture(scope="session", autouse=True)
def surroundings() -> Iterator[None]:
    """The environment of all domains, for the session. Started processes inherit it, and several tests share it."""
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        for domain in DOMAINS:
            for name, value in stack.enter_context(domain.surroundings()).items():
                patch.setenv(name, value)
        yield


@pytest.fixture
def url(interlock_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("STEPS_URL", interlock_url)
    execute(interlock_url, VICTIMS)
    return interlock_url


def traces(url: str, domain: Domain, activity: Activity[Any, Any]) -> tuple[Any, Any]:
    sample = domain.activities[activity.name]
    return asked(url, sample.effects, "it"), asked(url, sample.events, "it")


@pytest.mark.exhaustive(beyond=12)
@ACTIVITIES
async def test_an_activity_that_runs_twice_leaves_one_effect_and_one_event(
    url: str, domain: Domain, activity: Activity[Any, Any]
) -> None:
    execute(url, domain.tables)
    recorded(url, "it")
    await prepared(url, domain.activities[activity.name], "it")
    plain = activity.input.dump(domain.activities[activity.name].value("it"))
    first = await perform(url, domain.module, activity.name, "it", plain)
    assert await perform(url, domain.module, activity.name, "it", plain) == first
    assert traces(url, domain, activity) == ([1], [1])


@pytest.mark.exhaustive(beyond=1)
@ACTIVITIES
async def test_an_activity_that_is_killed_after_its_effect_leaves_one_effect_and_one_event(
    url: str, domain: Domain, activity: Activity[Any, Any]
) -> None:
    execute(url, domain.tables)
    recorded(url, "it")
    await prepared(url, domain.activities[activity.name], "it")
    plain = activity.input.dump(domain.activities[activity.name].value("it"))
    victim = Worker(url, domain.module, "support.durable_victim", activity.name, "it", json.dumps(plain))
    try:
        assert victim.process.wait(60) == -SIGKILL, victim.complaints()
    finally:
        victim.end()
    assert traces(url, domain, activity) == ([1], [1])
    await perform(url, domain.module, activity.name, "it", plain)
    assert traces(url, domain, activity) == ([1], [1])
    assert execute(url, "SELECT attempt FROM interlock.attempt") == [(2,)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("domain", DOMAINS, ids=[domain.module for domain in DOMAINS])
@pytest.mark.timeout(900)
async def test_an_orchestration_whose_worker_is_killed_after_any_step_ends_the_same(url: str, domain: Domain) -> None:
    """All steps of all orchestrations at the same time: each run of one loses its worker after another step."""
    execute(url, domain.tables)
    async with AsyncDurable(*domain.parts, url=url, concurrency=0) as durable:
        wanted = await undisturbed(durable, url, domain)
        keys = [key for name, _ in wanted for key in step_keys(url, name)]
        assert len(keys) > len(wanted)
        with mortals(url, domain) as watch:
            for key in keys:
                id = f"{key} killed"  # noqa: A001
                execute(url, "INSERT INTO victim (key) VALUES (%s)", key.replace(name_of(key), id, 1))
            runs = {f"{key} killed": one for key in keys for _, one in orchestrations() if one.name == name_of(key)}
            for id, one in runs.items():  # noqa: A001
                await prepared(url, domain.orchestrations[one.name], id)
                await durable.start(one, id, domain.orchestrations[one.name].value(id))
            results = {}
            async with asyncio.TaskGroup() as group:
                keeper = group.create_task(watch())
                for id, one in runs.items():  # noqa: A001
                    results[id] = await durable.handle(one, id).wait(500)
                keeper.cancel()
    survived = {key for (key,) in execute(url, "SELECT key FROM victim WHERE NOT died")}
    for id, one in runs.items():  # noqa: A001
        # Who is killed twice, the second time for another, may find its work done and not come to the last step.
        assert survived.isdisjoint(step_keys(url, id)), id
        state = asked(url, domain.orchestrations[one.name].state, id)
        assert (results[id], state) == dict(wanted)[one.name], id
    assert len(survived) < len(runs) / 10


async def prepared(url: str, sample: Sample, id: str) -> None:  # noqa: A002
    await asyncio.to_thread(sample.prepare, url, id)


def name_of(key: str) -> str:
    return key.partition("/")[0]


async def undisturbed(durable: AsyncDurable, url: str, domain: Domain) -> list[tuple[str, Any]]:
    """The state in which each orchestration ends without a crash. Its id is its name."""
    found = []
    with workers(url, 1, domain.module):
        for one in [one for part in domain.parts for one in part.orchestrations]:
            sample = domain.orchestrations[one.name]
            await prepared(url, sample, one.name)
            handle = await durable.start(one, one.name, sample.value(one.name))
            found.append((one.name, (await handle.wait(60), asked(url, sample.state, one.name))))
    return found


def step_keys(url: str, id: str) -> list[str]:  # noqa: A002
    """The steps that were taken by that orchestration and its children."""
    rows = execute(
        url,
        "SELECT DISTINCT instance_id || '/' || execution_id || '.' || ((event_data::json ->> 'input')::json ->> 'step')"
        "  FROM interlock_engine.history WHERE event_data::json ->> 'type' = 'ActivityScheduled'"
        "   AND (instance_id = %s OR starts_with(instance_id, %s || '/'))",
        id,
        id,
    )
    return sorted(key for (key,) in rows if key)


@contextmanager
def mortals(url: str, domain: Domain) -> Iterator[Any]:
    """Two replicas at any time: one that dies is replaced."""
    team = [Worker(url, domain.module, "support.durable_victim") for _ in range(2)]
    gone: list[Worker] = []

    async def watch() -> None:
        while True:
            for place, worker in enumerate(team):
                if (status := worker.process.poll()) is not None:
                    assert status == -SIGKILL, worker.complaints()
                    gone.append(worker)
                    team[place] = Worker(url, domain.module, "support.durable_victim")
            await asyncio.sleep(0.05)

    try:
        yield watch
    finally:
        for worker in [*team, *gone]:
            worker.end()
