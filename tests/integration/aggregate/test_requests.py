"""Requests, transitions and lists of records, on a table of the test's own."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from interlock.aggregate.effects import Effects
from interlock.aggregate.record import Record, Task, Transition
from interlock.aggregate.requests import Requests
from interlock.aggregate.table import NamedTable
from interlock.aggregate.transactions import Transactions
from interlock.durable.declarations import Orchestrations, Retry
from interlock.durable.replica import AsyncDurable
from interlock.durable.run import Run
from interlock.errors import IllegalTransition, OnceConflict, OrchestrationFailed, RecordBusy, RecordUnknown
from support.postgres import execute

TABLE = """
    CREATE TABLE interlock.thing (
        id text PRIMARY KEY, state text NOT NULL DEFAULT 'on', revision bigint NOT NULL DEFAULT 1,
        orchestration text NOT NULL, working boolean NOT NULL DEFAULT true, error text, error_code text,
        created_at timestamptz NOT NULL, created_by text NOT NULL, updated_at timestamptz NOT NULL,
        deleted_at timestamptz, name text NOT NULL)
"""


@dataclass(frozen=True)
class Thing(Record):
    name: str

    @property
    def label(self) -> str:
        return self.name


class Things(NamedTable[Thing]):
    record = Thing
    table = "thing"
    word = "thing"
    transitions: ClassVar = {
        "on": {"switch_off": "off", "delete": "deleting"},
        "off": {"switch_on": "on", "delete": "deleting"},
        "deleting": {"vanish": "deleted"},
    }
    unknown = RecordUnknown
    busy = RecordBusy


class Work:
    def __init__(self, transactions: Transactions) -> None:
        self.work = work = Orchestrations("things")
        self.do = Effects(work, Things("interlock"), transactions, Retry(attempts=1))
        self.switch_off = work.orchestration(name="switch_off")(self._switch_off)
        self.misled = work.orchestration(name="misled")(self._misled)
        self.delete = work.orchestration(name="delete")(self._delete)

    async def _switch_off(self, run: Run, task: Task) -> None:
        """The request has led to that state already."""
        await run.call(self.do.transition, Transition(task, "switch_off"))

    async def _misled(self, run: Run, task: Task) -> None:
        await run.call(self.do.transition, Transition(task, "vanish"))

    async def _delete(self, run: Run, task: Task) -> None:
        await self.do.wait_for_predecessor(run, task)
        await run.call(self.do.transition, Transition(task, "vanish"))


class Plane:
    def __init__(self, url: str) -> None:
        self.url = url
        self.transactions = Transactions(url, "things")
        self.work = Work(self.transactions)
        self.requests = Requests(Things("interlock"))

    async def ask(self, verb: Any, *args: Any, **more: Any) -> Any:
        return await self.transactions.transact(lambda on: verb(on, *args, **more))

    async def create(self, id: str, name: str) -> Thing:  # noqa: A002
        """Create a record that no orchestration works on."""
        await self.ask(self.requests.insert, id, {"name": name}, self.work.switch_off, by="key:ann")
        execute(self.url, "UPDATE interlock.thing SET working = false WHERE id = %s", id)
        execute(self.url, "DELETE FROM interlock.orchestration")
        thing: Thing = await self.ask(self.requests.records.read, id)
        return thing

    async def done(self, thing: Thing, orchestration: Any) -> Thing:
        async with AsyncDurable(self.work.work, url=self.url) as durable:
            await durable.handle(orchestration, thing.orchestration).wait(50)
        found: Thing = await self.ask(self.requests.records.read, thing.id)
        return found


@pytest.fixture
async def plane(interlock_url: str) -> AsyncIterator[Plane]:
    execute(interlock_url, TABLE)
    made = Plane(interlock_url)
    yield made
    await made.transactions.close()


async def test_work_ends_with_a_transition_into_the_current_state(plane: Plane) -> None:
    thing = await plane.create("a", "lamp")
    asked = await plane.ask(plane.requests.begin, thing, "switch_off", plane.work.switch_off)
    assert (asked.state, asked.working) == ("off", True)
    done = await plane.done(asked, plane.work.switch_off)
    assert (done.state, done.working, done.error) == ("off", False, None)
    assert done.revision > asked.revision > thing.revision


async def test_an_event_that_the_state_does_not_know_is_refused_and_changes_nothing(plane: Plane) -> None:
    thing = await plane.create("a", "lamp")
    with pytest.raises(IllegalTransition, match="The thing lamp is on and cannot vanish"):
        await plane.ask(plane.requests.begin, thing, "vanish", plane.work.misled)
    asked = await plane.ask(plane.requests.begin, thing, None, plane.work.misled)
    with pytest.raises(OrchestrationFailed) as failed:
        await plane.done(asked, plane.work.misled)
    assert failed.value.code == "record_overtaken"
    assert (await plane.ask(plane.requests.records.read, "a")).state == "on"


async def test_a_change_of_state_that_needs_no_work_is_noted_with_its_actor(plane: Plane) -> None:
    thing = await plane.create("a", "lamp")
    changed = await plane.ask(plane.requests.change_state, thing, "switch_off", by="key:ben")
    assert (changed.state, changed.working, changed.revision > thing.revision) == ("off", False, True)
    history = await plane.ask(plane.requests.records.events.list, "a")
    assert [(event.kind, event.actor) for event in history] == [
        ("switch_off", "key:ben"),
        ("switch_off requested", "key:ann"),
    ]


async def test_a_deletion_takes_over_once_and_ends_what_it_took_over_from(plane: Plane) -> None:
    thing = await plane.create("a", "lamp")
    asked = await plane.ask(plane.requests.begin, thing, "switch_off", plane.work.switch_off)
    with pytest.raises(RecordBusy):
        await plane.ask(plane.requests.lock_idle, "a")
    deleting = await plane.ask(plane.requests.begin_deletion, "a", plane.work.delete)
    assert deleting.orchestration != asked.orchestration
    assert await plane.ask(plane.requests.begin_deletion, "a", plane.work.delete) == deleting
    gone = await plane.done(deleting, plane.work.delete)
    assert (gone.state, gone.working) == ("deleted", False)
    assert gone.deleted_at is not None
    with pytest.raises(RecordUnknown, match="The thing lamp is deleted"):
        await plane.ask(plane.requests.begin_deletion, "a", plane.work.delete)


async def test_a_repeated_request_finds_what_it_made_and_nothing_else(plane: Plane) -> None:
    thing = await plane.create("a", "lamp")
    assert await plane.ask(plane.requests.find_repeated, None) is None
    assert await plane.ask(plane.requests.find_repeated, "b", name="lamp") is None
    assert await plane.ask(plane.requests.find_repeated, "a", name="lamp") == thing
    with pytest.raises(OnceConflict, match="The thing lamp was created under that key"):
        await plane.ask(plane.requests.find_repeated, "a", name="door")


async def test_records_are_found_by_their_names_until_these_are_others(plane: Plane) -> None:
    first = await plane.create("a", "lamp")
    records = plane.requests.records
    execute(plane.url, "UPDATE interlock.thing SET deleted_at = now()")
    with pytest.raises(RecordUnknown):
        await plane.ask(Things("interlock").find, "lamp")
    second = await plane.create("b", "lamp")
    assert (await plane.ask(Things("interlock").find, "lamp")).id == second.id
    assert (await plane.ask(Things("interlock").find, first.id)).id == first.id
    page = await plane.ask(records.page, name_part="am", states=["on"], sort="name", deleted=True)
    assert [one.id for one in page.items] == ["a", "b"]
    assert [one.id for one in (await plane.ask(records.page, states=["off"])).items] == []
