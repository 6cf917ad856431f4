"""The pytest fixture, used as in the tests of another project, in test runs of its own."""

import subprocess
import sys
import tomllib
from importlib import import_module, metadata
from pathlib import Path

import pytest

PLUGIN = "interlock.integrations.pytest_plugin"
ROOT = Path(__file__).parents[3]

TESTS = """
import asyncio
import sqlite3

import pytest

from interlock import AsyncInterlock, Interlock, LeaseLost


def test_leases_are_found_without_settings(interlock):
    with Interlock() as mine, mine.lease("feeds"):
        assert interlock.locks.lease("feeds").try_acquire() is None


def test_no_lease_of_other_tests_remains(interlock):
    assert [held.name for held in interlock.locks.lease("feeds").holders()] == []
    interlock.locks.lease("feeds").acquire()


def test_no_lease_of_other_tests_remains_either(interlock):
    assert interlock.locks.lease("feeds").try_acquire()


def test_another_holder_has_the_lease(interlock):
    feeds = interlock.locks.lease("feeds")
    with interlock.held_elsewhere("feeds") as theirs:
        assert feeds.try_acquire() is None
        assert feeds.holders()[0].holder == "another"
        theirs.release()
        assert feeds.try_acquire()
    with interlock.held_elsewhere("seats", slots=2), interlock.held_elsewhere("seats", slots=2):
        assert interlock.locks.lease("seats", slots=2).try_acquire() is None


def test_the_lease_is_lost(interlock):
    told = []
    with pytest.raises(LeaseLost), interlock.locks.lease("feeds", ttl=3600) as grant:
        grant.on_lost(told.append)
        interlock.lose(grant)
        assert grant.lost
        grant.check()
    assert told == ["refused"]
    (thief,) = interlock.locks.lease("feeds").holders()
    assert thief.holder == "another" and thief.token > grant.token


def test_the_lease_is_lost_without_notification(interlock):
    grant = interlock.locks.lease("feeds").acquire()
    interlock.lose(grant, told=False)
    assert not grant.lost
    assert grant.release() is False


async def test_the_body_of_a_lost_lease_is_cancelled(interlock):
    async with AsyncInterlock() as locks:
        with pytest.raises(LeaseLost):
            async with locks.lease("feeds") as grant:
                await interlock.alose(grant)
                raise AssertionError("not reached")
        grant = await locks.lease("other").acquire()
        await interlock.alose(grant, told=False)
        assert not grant.lost
        await interlock.alose(await locks.lease("third").acquire())


def test_time_passes(interlock):
    feeds = interlock.locks.lease("feeds", ttl=30)
    grant = feeds.acquire()
    interlock.move_time(10)
    assert not grant.lost
    assert grant.remaining < 20
    interlock.move_time(30)
    assert grant.lost
    newer = feeds.try_acquire()
    assert newer.token > grant.token
    assert 20 < newer.remaining <= 30
    with pytest.raises(Exception, match="a number of seconds above 0"):
        interlock.move_time(-1)


def test_time_is_restored_after_a_test(interlock):
    from interlock.clock import boottime
    import time
    assert abs(boottime() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 5


def test_recorded_once(interlock):
    calls = []
    for _ in range(2):
        interlock.locks.once("boot", lambda: calls.append(1))
    assert calls == [1]
"""

GUARD = """
import sqlite3

import pytest

from interlock import LeaseLost


def test_only_a_guard_stops_a_holder_that_was_not_notified(interlock):
    grant = interlock.locks.lease("feeds").acquire()
    connection = sqlite3.connect(interlock.url.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    grant.guard(connection)
    connection.execute("ROLLBACK")
    interlock.lose(grant, told=False)
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(LeaseLost):
        grant.guard(connection)
    connection.close()
"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> pytest.Pytester:
    installed = any(entry.value == PLUGIN for entry in metadata.entry_points(group="pytest11"))
    options = "-p no:xdist" if installed else f"-p no:xdist -p {PLUGIN}"
    pytester.makeini(
        f"[pytest]\naddopts = {options} -W error\nasyncio_mode = auto\n"
        "asyncio_default_fixture_loop_scope = function\ntimeout = 50\n"
    )
    return pytester


def passes(run: pytest.Pytester, *options: str) -> None:
    result = run.runpytest_subprocess(*options)
    count = (run.path / "test_all.py").read_text().count("def test_")
    result.assert_outcomes(passed=count)
    assert result.ret == 0


def test_each_test_has_its_own_sqlite_file(run: pytest.Pytester) -> None:
    run.makepyfile(test_all=TESTS + GUARD)
    passes(run)


def test_the_example_of_the_docs_passes(run: pytest.Pytester) -> None:
    page = (ROOT / "docs" / "how-to" / "testing.md").read_text()
    run.makepyfile(test_all=page.split("```python\n")[1].split("```")[0])
    passes(run)


def test_a_named_postgresql_is_used(run: pytest.Pytester, database_url: str) -> None:
    from support.postgres import execute

    run.makepyfile(test_all=TESTS)
    passes(run, f"--interlock-url={database_url}")
    left = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'interlock%'"
    assert execute(database_url, left) == [], "nothing is left behind"


def test_an_embedded_postgresql_is_started(run: pytest.Pytester) -> None:
    run.makepyfile(test_all="def test_it(interlock):\n    assert interlock.url.startswith('postgresql://')\n")
    passes(run, "-o", "interlock_url=embedded")


def test_a_bad_url_is_reported(run: pytest.Pytester) -> None:
    run.makepyfile(test_all="def test_it(interlock): ...\n")
    result = run.runpytest_subprocess("--interlock-url=mysql://x")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ConfigurationError: *postgresql://*"])


def test_the_entry_point_names_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"interlock": PLUGIN}
    assert import_module(PLUGIN).pytest_addoption


def test_the_plugin_imports_nothing_until_the_fixture_is_used() -> None:
    code = f"import sys, pytest; before = set(sys.modules); import {PLUGIN}; print(*sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["interlock", "interlock.integrations", PLUGIN]
