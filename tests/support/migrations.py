"""Migrations for tests: long statements by each kind of client, and commands that print their observations.

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
    """The number of long migrations that run on the server now."""
    return int(execute(url, _RUNNING, f"SELECT pg_sleep%{MARK}%")[0][0])


def psql(url: str, statement: str) -> list[str]:
    program = find_binaries(None).bin_dir / "psql"
    return [str(program), url, "-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-c", statement]


@contextmanager
def holding_back(url: str) -> Iterator[Callable[[], object]]:
    """Processes that run `wait_for_go` wait until the yielded function is called. The lock's key is not Interlock's."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(1)")
        yield lambda: connection.execute("SELECT pg_advisory_unlock(1)")


def wait_for_go(url: str) -> str:
    """A shell command that waits."""
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
    """A command that prints the time of its start, and the number of long migrations that were running then."""
    return _python(
        "import psycopg, time\n"
        "began = time.time()\n"
        f"count, = psycopg.connect({url!r}).execute({_RUNNING!r}, ['SELECT pg_sleep%{MARK}%']).fetchone()\n"
        "print(began, count)"
    )


def keeps_writing(url: str, who: str) -> list[str]:
    """A command that writes rows until it is ended, each on its own connection: an ended session does not stop it."""
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
