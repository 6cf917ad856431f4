"""The phases of a start."""

import asyncio

import pytest

from interlock import schema
from interlock.config import Settings
from interlock.errors import AccessDenied
from interlock.schema import State
from interlock.schema.status import SchemaStatus
from interlock.server.startup import Startup, start


def current() -> SchemaStatus:
    steps = frozenset(migration.step for migration in schema.migrations.all_migrations())
    return SchemaStatus("interlock", State.CURRENT, steps, ())


def test_a_start_begins_with_the_database() -> None:
    startup = Startup()
    assert (startup.phase, startup.is_done, startup.schema_version) == ("database", False, None)


def test_the_time_of_a_phase_is_that_of_its_beginning() -> None:
    startup = Startup()
    startup.enter("waiting")
    entered = startup.since
    startup.enter("waiting")
    assert startup.since == entered
    startup.enter("migrating")
    assert startup.since > entered


def test_a_complete_start_is_ready_and_has_its_schema() -> None:
    startup = Startup()
    startup.finish("postgresql://u:secret@h/d", current())
    assert startup.is_done
    assert startup.schema_version == schema.newest_version()


class Refusing:
    shown = "a database"

    async def bring_up(self) -> str:
        raise AccessDenied("refused")

    def release(self) -> None:
        raise AssertionError("there is nothing to release")


async def test_an_error_that_prevents_the_start_is_raised() -> None:
    startup = Startup()
    with pytest.raises(AccessDenied):
        await start(startup, Refusing(), Settings())
    assert startup.phase == "database"


class Silent:
    shown = "a database"

    async def bring_up(self) -> str:
        await asyncio.Event().wait()
        raise AssertionError("never")

    def release(self) -> None:
        pass


async def test_a_start_that_waits_for_its_database_can_be_cancelled() -> None:
    starting = asyncio.create_task(start(Startup(), Silent(), Settings()))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
