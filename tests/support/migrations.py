"""Migrations for tests: long statements by every kind of client, and commands that tell what they saw when they began.

Each returns an argument list for `interlock gate run -- …`. The long ones run one statement that takes far longer than
any test, marked so that it can be found in pg_stat_activity.
"""

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import psycopg

from interlock.embedded import find_binaries
from support.postgres import execute

MARK = "a long migration"

_LONG = f"SELECT pg_sleep(30) /* {MARK} */"
_RUNNING = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE %s AND pid <> pg_backend_pid()"


def running_long(url: str) -> int:
    """How many long migrations the server is working on right now."""
    return int(execute(url, _RUNNING, f"SELECT pg_sleep%{MARK}%")[0][0])


def psql(url: str, statement: str) -> list[str]:
    program = find_binaries(None).bin_dir / "psql"
    return [str(program), url, "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-c", statement]


@contextmanager
def holding_back(url: str) -> Iterator[Callable[[], object]]:
    """Whoever runs `wait_for_go` waits until what this gives is called. The key is one of 64 bits: no key of ours."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(1)")
        yield lambda: connection.execute("SELECT pg_advisory_unlock(1)")


def wait_for_go(url: str) -> str:
    """As a piece of shell script."""
    return f"{shlex.join(psql(url, 'SELECT pg_advisory_lock_shared(1)'))} >/dev/null"


def long_by_psql(url: str) -> list[str]:
    return psql(f"{url}?application_name=tool", _LONG)


def long_by_psql_as_grandchild(url: str) -> list[str]:
    return ["bash", "-c", f"{shlex.join(long_by_psql(url))}; true"]


def long_by_psycopg(url: str) -> list[str]:
    return _python(f"import psycopg; psycopg.connect({url!r}, application_name='tool').execute({_LONG!r})")


def long_by_asyncpg(url: str) -> list[str]:
    return _python(
        "import asyncio, asyncpg\n"
        "async def main():\n"
        f"    connection = await asyncpg.connect({url!r}, server_settings={{'application_name': 'tool'}})\n"
        f"    await connection.execute({_LONG!r})\n"
        "asyncio.run(main())"
    )


def tells_what_it_meets(url: str) -> list[str]:
    """Prints the moment that it began and how many long migrations were still running at that moment."""
    return _python(
        "import psycopg, time\n"
        "began = time.time()\n"
        f"count, = psycopg.connect({url!r}).execute({_RUNNING!r}, ['SELECT pg_sleep%{MARK}%']).fetchone()\n"
        "print(began, count)"
    )


def keeps_writing(url: str, who: str) -> list[str]:
    """Writes rows until it is ended, each on a connection of its own: no ended session or server stops it."""
    return _python(
        "import contextlib, psycopg\n"
        "while True:\n"
        f"    with contextlib.suppress(psycopg.Error), psycopg.connect({url!r}) as connection:\n"
        f"        connection.execute('INSERT INTO write (who) VALUES (%s)', [{who!r}])\n"
    )


def writes(url: str, who: str) -> list[datetime]:
    return [at for (at,) in execute(url, "SELECT at FROM write WHERE who = %s", who)]


def _python(code: str) -> list[str]:
    return [str(Path(sys.executable)), "-c", code]
