"""A migration whose gate is lost sends no further statement."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import Engine, NullPool, create_engine, text

from interlock.errors import GateLost
from interlock.integrations.alembic import _watch
from interlock.integrations.termination import Connections
from support.postgres import execute
from support.waiting import eventually


class LosableGate:
    def __init__(self) -> None:
        self.is_lost = False

    def check(self) -> None:
        if self.is_lost:
            raise GateLost("It was lost.", gate="test")


@pytest.fixture
def gate() -> LosableGate:
    return LosableGate()


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    execute(database_url, "CREATE TABLE log (name text)")
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)
    yield engine
    engine.dispose()


def test_no_statement_starts_after_the_loss(engine: Engine, gate: LosableGate) -> None:
    with _watch(Connections(gate.check).before_statement), engine.connect() as connection:
        connection.execute(text("INSERT INTO log VALUES ('before')"))
        gate.is_lost = True
        with pytest.raises(GateLost):
            connection.execute(text("INSERT INTO log VALUES ('after')"))
        connection.rollback()


def test_nothing_is_committed_after_the_loss(engine: Engine, gate: LosableGate, database_url: str) -> None:
    with _watch(Connections(gate.check).before_statement), engine.connect() as connection:
        connection.execute(text("INSERT INTO log VALUES ('before')"))
        gate.is_lost = True
        with pytest.raises(GateLost):
            connection.commit()
    assert execute(database_url, "SELECT name FROM log") == []


def test_statements_of_other_threads_and_other_times_are_not_affected(engine: Engine, gate: LosableGate) -> None:
    def insert() -> None:
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO log VALUES ('other')"))

    gate.is_lost = True
    with _watch(Connections(gate.check).before_statement), ThreadPoolExecutor() as threads:
        threads.submit(insert).result()
    insert()


def test_a_severed_connection_ends_its_statement_and_accepts_no_other(database_url: str, gate: LosableGate) -> None:
    connections = Connections(gate.check)
    raised: list[str] = []

    def migrate() -> None:
        for _ in range(2):
            try:
                connection.execute("SELECT pg_sleep(10)")
            except psycopg.Error as error:
                raised.append(type(error).__name__)
                severed.wait()

    severed = threading.Event()
    with psycopg.connect(database_url) as connection:
        connections.before_statement(connection)
        running = f"SELECT 1 FROM pg_stat_activity WHERE pid = {connection.info.backend_pid} AND state = 'active'"
        with ThreadPoolExecutor() as threads:
            migrating = threads.submit(migrate)
            eventually(lambda: execute(database_url, running))
            connections.sever("a test")
            eventually(lambda: not any(thread.name.startswith("interlock-") for thread in threading.enumerate()))
            severed.set()
            migrating.result(timeout=20)
        assert raised in (
            ["QueryCanceled", "OperationalError"],
            ["OperationalError", "OperationalError"],  # the connection was cut before the server's answer was read
        )
        eventually(lambda: not execute(database_url, running))


def test_a_connection_that_was_returned_is_not_severed(database_url: str, gate: LosableGate) -> None:
    connections = Connections(gate.check)
    with psycopg.connect(database_url) as connection:
        connections.before_statement(connection)
        connections.forget()
        connections.sever("a test")
        assert not any(thread.name.startswith("interlock-") for thread in threading.enumerate())
        assert connection.execute("SELECT 1").fetchone() == (1,)
