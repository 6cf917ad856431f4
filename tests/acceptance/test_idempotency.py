"""Requests with an Idempotency-Key, to real servers, one of which is killed during a request."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from signal import SIGKILL

import httpx
import psycopg
import pytest

from support.postgres import execute
from support.programs import environment
from support.waiting import eventually

SERVER = """
import os, socket, sys

import psycopg
import uvicorn
from fastapi import FastAPI

from interlock import AsyncInterlock
from interlock.integrations.fastapi import with_interlock
from interlock.integrations.idempotency.asgi import IdempotencyMiddleware

locks = AsyncInterlock()
app = FastAPI(lifespan=with_interlock(locks))
app.add_middleware(IdempotencyMiddleware, locks=locks, scope="authorization", ttl=5, wait=30)

@app.post("/orders", status_code=201)
async def order() -> dict[str, str]:
    url = os.environ["INTERLOCK_DATABASE_URL"]
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("INSERT INTO effect (server, phase) VALUES (%s, 'begun')", [sys.argv[2]])
        await connection.execute("SELECT pg_advisory_xact_lock_shared(7)")
        await connection.execute("INSERT INTO effect (server, phase) VALUES (%s, 'done')", [sys.argv[2]])
    return {"by": sys.argv[2]}

listening = socket.socket(fileno=int(sys.argv[1]))
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])
"""
EFFECTS = "SELECT server, phase FROM effect ORDER BY position"


class Server:
    def __init__(self, process: "subprocess.Popen[bytes]", port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}/orders"

    def order(self, key: str = '"k1"') -> httpx.Response:
        return httpx.post(self.url, json={"tea": 1}, headers={"Idempotency-Key": key}, timeout=40)


@contextmanager
def serving(url: str, name: str) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(listening.fileno()), name],
            env=environment(url),
            pass_fds=[listening.fileno()],
        )
        port = listening.getsockname()[1]
    try:
        yield Server(process, port)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def url(interlock_url: str) -> str:
    execute(interlock_url, "CREATE TABLE effect (position bigserial PRIMARY KEY, server text, phase text)")
    return interlock_url


@pytest.mark.exhaustive
def test_a_retry_at_another_server_waits_runs_after_the_kill_and_is_replayed_later(url: str) -> None:
    with (
        serving(url, "one") as one,
        serving(url, "two") as two,
        ThreadPoolExecutor() as clients,
        psycopg.connect(url) as stop,
    ):
        stop.execute("SELECT pg_advisory_xact_lock(7)")
        first = clients.submit(one.order)
        eventually(lambda: execute(url, EFFECTS) == [("one", "begun")])
        retry = clients.submit(two.order)
        eventually(lambda: execute(url, "SELECT count(*) FROM interlock.waiter") == [(1,)])
        one.process.send_signal(SIGKILL)
        with pytest.raises(httpx.HTTPError):
            first.result()
        eventually(lambda: ("two", "begun") in execute(url, EFFECTS))
        stop.rollback()
        answers = [retry.result(), two.order(), two.order('"k2"')]
        assert [answer.status_code for answer in answers] == [201, 201, 201]
        assert [answer.json()["by"] for answer in answers] == ["two", "two", "two"]
        assert [answer.headers.get("idempotency-replayed") for answer in answers] == [None, "true", None]
        two_and_k2 = [("two", "begun"), ("two", "done")]
        assert execute(url, EFFECTS) == [("one", "begun"), *two_and_k2, *two_and_k2]


def test_many_requests_at_two_servers_run_once(url: str) -> None:
    with serving(url, "one") as one, serving(url, "two") as two, ThreadPoolExecutor(20) as clients:
        answers = [clients.submit(server.order) for server in [one, two] * 10]
        bodies = {answer.result().text for answer in answers}
        replayed = [answer.result().headers.get("idempotency-replayed") for answer in answers]
    assert len(bodies) == 1
    assert replayed.count(None) == 1
    assert [phase for _, phase in execute(url, EFFECTS)] == ["begun", "done"]
