"""Values, pages and steps that no domain has yet, on a domain of the test's own."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, ClassVar

import asyncpg
import psycopg
import pytest

from interlock import AsyncDurable
from interlock.aggregate.effects import Changes, Effects
from interlock.aggregate.record import Record, Task, Transition
from interlock.aggregate.requests import Requests
from interlock.aggregate.table import Page, RecordTable
from interlock.aggregate.transactions import Transactions
from interlock.durable.declarations import Orchestrations, Retry
from interlock.durable.run import Run
from interlock.errors import DoNotRetry, OrchestrationEnded, RecordBusy, RecordUnknown
from interlock.server.api.pagination import ListQuery, page_of
from support.postgres import execute
from support.waiting import eventually

TABLE = """
    CREATE TABLE interlock.thing (
        id text COLLATE "C" PRIMARY KEY, state text NOT NULL DEFAULT 'making', revision bigint NOT NULL DEFAULT 1,
        orchestration text COLLATE "C" NOT NULL, working boolean NOT NULL DEFAULT true, error text, error_code text,
        created_at timestamptz NOT NULL, created_by text NOT NULL, updated_at timestamptz NOT NULL,
        deleted_at timestamptz, title text, size_bytes bigint, facts jsonb)
"""
INSERT = """
    INSERT INTO interlock.thing (id, state, orchestration, working, created_by, created_at, updated_at, title,
                                 size_bytes, facts)
    VALUES (%s, %s, 'o', false, 'test', now(), now(), %s, %s, '{}')
"""


@dataclass(frozen=True)
class Thing(Record):
    title: str | None
    size_bytes: int | None
    facts: Mapping[str, Any]


class Things(RecordTable[Thing]):
    record = Thing
    table = "thing"
    word = "thing"
    transitions: ClassVar = {
        "making": {"finish": "made", "fail": "failed"},
        "made": {"fail": "failed"},
        "failed": {},
    }
    unknown = RecordUnknown
    busy = RecordBusy
    json_columns = frozenset({"facts"})
    sorts: ClassVar = {"title": "t.title"}


class ThingActivities(Effects[Thing]):
    detail = "fine"

    def __init__(self, work: Orchestrations, transactions: Transactions) -> None:
        super().__init__(work, Things("interlock"), transactions, Retry(attempts=2, first=0.05, longest=0.05))
        self.check = self.effect("checked", self._check)

    async def _check(self, thing: Thing, task: Task) -> Changes:
        if thing.state == "failed":
            raise DoNotRetry("It is still broken.", code="not_running")
        return Changes({"facts": {"is": "fine"}}, self.detail)


class ThingWork:
    def __init__(self, transactions: Transactions) -> None:
        self.work = work = Orchestrations("things")
        self.do = ThingActivities(work, transactions)
        self.settle = work.orchestration(name="settle")(self._settle)
        self.check = work.orchestration(name="check", cleanup=self.settle)(self._check)

    async def _check(self, run: Run, task: Task) -> None:
        await run.call(self.do.check, task)
        await run.call(self.do.transition, Transition(task, "finish"))

    async def _settle(self, run: Run, task: Task) -> None:
        if await run.call(self.do.read_state, task) is not None:
            failed = await run.call(self.do.read_failure, task)
            await run.call(self.do.transition, Transition(task, "fail", failure=failed))


@dataclass
class Domain:
    url: str
    work: ThingWork
    things: Requests[Thing]
    durable: AsyncDurable

    async def checked(self, id: str) -> Thing:  # noqa: A002
        """After `check` and its clean-up have ended."""
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            thing = await self.things.lock_idle(connection, id)
            asked = await self.things.begin(connection, thing, None, self.work.check)
        try:
            await self.durable.handle(self.work.check, asked.orchestration).wait(20)
        except OrchestrationEnded:
            finished = "SELECT 1 FROM interlock.orchestration WHERE id = %s AND finished_at IS NOT NULL"
            cleanup = f"{asked.orchestration}:cleanup"
            await asyncio.to_thread(eventually, lambda: execute(self.url, finished, cleanup), within=20)
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            return await self.things.records.read(connection, id)


@pytest.fixture
def url(interlock_url: str) -> str:
    execute(interlock_url, TABLE)
    return interlock_url


@pytest.fixture
async def domain(url: str) -> AsyncIterator[Domain]:
    async with AsyncExitStack() as stack:
        transactions = Transactions(url, "things")
        stack.push_async_callback(transactions.close)
        work = ThingWork(transactions)
        durable = await stack.enter_async_context(AsyncDurable(work.work, url=url))
        yield Domain(url, work, Requests(Things("interlock")), durable)


async def test_work_ends_although_the_record_has_the_target_state_already(domain: Domain) -> None:
    """The record has failed already, and the check fails again."""
    execute(domain.url, INSERT, "one", "failed", "", 1)
    found = await domain.checked("one")
    assert (found.working, found.error_code) == (False, "not_running")


async def test_text_that_no_column_stores_does_not_block_a_transition(url: str) -> None:
    """`transition_columns` returns columns, as an effect does. Both are made storable."""
    execute(url, INSERT, "one", "making", "", 1)
    things = Things("interlock")
    async with await psycopg.AsyncConnection.connect(url) as connection:
        record = await things.lock(connection, "one")
        assert await things.apply_event(connection, record, "finish", title="a\0b")
        assert (await things.read(connection, "one")).title == "a?b"


async def test_the_detail_of_an_effect_may_be_any_text(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stored in the history of the record, and goes to the engine as the step's result."""
    monkeypatch.setattr(ThingActivities, "detail", "a\0b\ud800c")
    execute(domain.url, INSERT, "one", "making", "", 1)
    found = await asyncio.wait_for(domain.checked("one"), 25)
    assert (found.state, found.working, found.error) == ("made", False, None)


async def test_a_json_column_takes_what_other_systems_say(url: str) -> None:
    """JSON values are made storable like texts: jsonb has no NUL and no half of a surrogate pair."""
    execute(url, INSERT, "one", "making", "", 1)
    things = Things("interlock")
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await things.change(connection, "one", facts={"said": "a\0b\ud800"})
        assert (await things.read(connection, "one")).facts == {"said": "a?b?"}


async def test_a_json_column_may_be_null(url: str) -> None:
    execute(url, INSERT, "one", "making", "", 1)
    execute(url, "UPDATE interlock.thing SET facts = NULL")
    async with await psycopg.AsyncConnection.connect(url) as connection:
        assert (await Things("interlock").read(connection, "one")).facts is None


async def test_json_is_json_whatever_codec_the_connection_has(url: str) -> None:
    """Some programs let their asyncpg connections read and write jsonb as objects."""
    execute(url, INSERT, "one", "making", "", 1)
    things = Things("interlock")
    connection = await asyncpg.connect(url)
    try:
        await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        async with connection.transaction():
            await things.change(connection, "one", facts={"a": 1})
            assert (await things.read(connection, "one")).facts == {"a": 1}
    finally:
        await connection.close()


async def pages(url: str, **wishes: Any) -> list[str]:
    found: list[str] = []
    after = None
    async with await psycopg.AsyncConnection.connect(url) as connection:
        while True:
            page = await Things("interlock").page(connection, limit=2, after=after, **wishes)
            found += [one.id for one in page.items]
            if (after := page.following) is None:
                return found


@pytest.mark.parametrize("descending", [False, True])
async def test_records_without_a_sort_key_are_listed_too(url: str, descending: bool) -> None:
    for id, title in (("a", None), ("b", "x"), ("c", None), ("d", "y"), ("e", None)):  # noqa: A001
        execute(url, INSERT, id, "making", title, 1)
    assert sorted(await pages(url, sort="title", descending=descending)) == ["a", "b", "c", "d", "e"]


def test_a_cursor_may_hold_any_sort_key() -> None:
    """The titles of docs/how-to/new-domain.md, for one: the second page of a list of them is refused."""
    _, following = page_of(Page([], ("Überblick", "a")), lambda record: record, "title")
    assert ListQuery(deleted=False, limit=1, after=following).place("title") == ("Überblick", "a")


async def test_a_filter_may_name_another_table_wherever_the_schema_is(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements of a domain are written for the schema `interlock`, and rewritten for the real one."""
    execute(url, "ALTER SCHEMA interlock RENAME TO control")
    execute(
        url,
        "INSERT INTO control.thing (id, orchestration, created_by, created_at, updated_at, facts)"
        " VALUES ('a', 'o', 'test', now(), now(), '{}')",
    )
    has = "EXISTS (SELECT FROM interlock.event e WHERE e.subject = t.id AND e.kind = CAST({0} AS text))"
    monkeypatch.setattr(Things, "filters", {"has": has})
    async with await psycopg.AsyncConnection.connect(url) as connection:
        assert (await Things("control").page(connection, has="made")).items == []


async def test_transactions_that_hold_two_records_fail_no_work_on_a_third(
    url: str,
) -> None:
    """A request is part of its caller's transaction, which may take its time. Steps on those records wait for it, on
    both connections that a replica has for steps; all others are late, and do not fail."""
    async with AsyncExitStack() as stack:
        transactions = Transactions(url, "things", size=2)
        stack.push_async_callback(transactions.close)
        work = ThingWork(transactions)
        things = Requests(Things("interlock"))
        for id in ("a", "b", "c"):  # noqa: A001
            execute(url, INSERT, id, "making", "", 1)
        asked: dict[str, str] = {}
        for id in ("a", "b", "c"):  # noqa: A001
            async with await psycopg.AsyncConnection.connect(url) as connection:
                thing = await things.lock_idle(connection, id)
                asked[id] = (await things.begin(connection, thing, None, work.check)).orchestration
        holder = await psycopg.AsyncConnection.connect(url)
        stack.push_async_callback(holder.close)
        await holder.execute("SELECT FROM interlock.thing WHERE id IN ('a', 'b') FOR UPDATE")
        durable = await stack.enter_async_context(AsyncDurable(work.work, url=url))
        for id in ("a", "b"):  # noqa: A001
            await durable.begin(asked[id])
        waiting = (
            "SELECT 1 FROM pg_stat_activity WHERE application_name = 'interlock things' AND wait_event_type = 'Lock'"
        )
        await asyncio.to_thread(eventually, lambda: len(execute(url, waiting)) == 2)
        await durable.begin(asked["c"])
        begun = "SELECT 1 FROM interlock.attempt WHERE orchestration = %s"
        await asyncio.to_thread(eventually, lambda: execute(url, begun, asked["c"]))
        await holder.rollback()
        await durable.handle(work.check, asked["c"]).wait(20)
