"""A service for a server that loads it once and then forks its workers, like ``gunicorn --preload``.

It has used its leases before the fork, and the server's first process goes on holding one.
"""

import json
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import psycopg

from interlock import Interlock

URL = os.environ["INTERLOCK_DATABASE_URL"]

locks = Interlock()
counting = locks.lease("counting", ttl=2)
of_the_first_process = locks.lease("before the fork", ttl=60).acquire()


def application(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    answer = {"/count": count, "/hold": hold, "/look": look}[environ["PATH_INFO"]]()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


def count() -> int:
    """Read and write the counter, by one process at a time; otherwise counts would be lost."""
    with counting as grant, psycopg.connect(URL) as connection:
        grant.guard(connection)
        [[value]] = connection.execute("SELECT value FROM counter")
        connection.execute("UPDATE counter SET value = %s", [value + 1])
    return os.getpid()


def hold() -> None:
    with counting, psycopg.connect(URL) as connection:
        connection.execute("INSERT INTO holder VALUES (%s)", [os.getpid()])
        connection.commit()
        time.sleep(3600)  # until the worker is killed


def look() -> bool:
    return of_the_first_process.lost
