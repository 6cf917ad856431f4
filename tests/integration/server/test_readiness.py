"""The readiness check, with a real database."""

import asyncio

import pytest

from interlock.schema import State
from interlock.schema.status import SchemaStatus
from interlock.server import readiness as module
from interlock.server.listener import listen
from interlock.server.readiness import Readiness
from interlock.server.startup import Startup
from support.postgres import execute

STATUS = SchemaStatus("interlock", State.CURRENT, frozenset(), ())
SESSIONS = """
SELECT pid FROM pg_stat_activity WHERE application_name = 'interlock readiness' AND datname = current_database()
"""


def started(url: str) -> Startup:
    startup = Startup()
    startup.finish(url, STATUS)
    return startup


async def test_concurrent_checks_open_one_session(database_url: str) -> None:
    readiness = Readiness(started(database_url))
    answers = await asyncio.gather(*(readiness.problem() for _ in range(20)))
    assert answers == [None] * 20
    assert len(execute(database_url, SESSIONS)) == 1
    await readiness.close()


async def test_a_session_that_was_ended_is_replaced(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FRESH_FOR", 0)
    readiness = Readiness(started(database_url))
    assert await readiness.problem() is None
    execute(database_url, f"SELECT pg_terminate_backend(pid, 5000) FROM ({SESSIONS}) AS ours")
    answers = [await readiness.problem() for _ in range(2)]  # the first may still use the ended session
    assert answers[-1] is None
    await readiness.close()


async def test_the_problem_does_not_contain_the_password(database_url: str) -> None:
    url = database_url.rsplit("/", 1)[0].replace("@", "secret@") + "/nowhere"
    problem = await Readiness(started(url)).problem()
    assert problem is not None
    assert "secret" not in problem


async def test_a_database_that_accepts_and_never_answers_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIMEOUT", 0.05)
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        problem = await Readiness(started(f"postgresql://u:secret@127.0.0.1:{port}/d")).problem()
    assert problem == "The database did not answer within 0.05 s."


async def test_within_a_second_the_result_is_reused(database_url: str) -> None:
    startup = started(database_url)
    readiness = Readiness(startup)
    assert await readiness.problem() is None
    startup.url = "postgresql://127.0.0.1:1/nothing"
    await readiness.close()
    assert await readiness.problem() is None
