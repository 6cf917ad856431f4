"""The examples of docs/reference/claims.md and docs/how-to/repeating.md run unchanged."""

import re
import subprocess
import sys
from pathlib import Path

from support.postgres import execute
from support.programs import environment

DOCS = Path(__file__).parents[3] / "docs"

CREATE = """
import os, psycopg

def asked(name, order, repeat=True):
    with psycopg.connect(os.environ["INTERLOCK_DATABASE_URL"], autocommit=True) as connection:
        return create(connection, name, order)

assert [asked("MyDB.example.com", "7"), asked("mydb.example.com", "8"), asked("", "9")] == [201, 409, 400]
with psycopg.connect(os.environ["INTERLOCK_DATABASE_URL"]) as connection:
    names.claim(connection, "other.example.com", "10")
    assert asked("other.example.com", "11") == 503
with psycopg.connect(os.environ["INTERLOCK_DATABASE_URL"]) as connection:
    names.release(connection, "mydb.example.com", "7", gone=True)
assert asked("mydb.example.com", "7") == 410
"""

SHIP = """
import asyncio, asyncpg, os
from datetime import UTC

async def main():
    connection = await asyncpg.connect(os.environ["INTERLOCK_DATABASE_URL"])
    await connection.execute(states.install_sql() + events.constraint)
    for _ in range(2):
        await ship(connection, "7", "message 1", datetime(2026, 1, 2, tzinfo=UTC))
    await connection.close()

asyncio.run(main())
"""

TABLES = """
    CREATE SCHEMA shop;
    CREATE TABLE shop.orders (id text PRIMARY KEY, created_by text, state text DEFAULT 'new', address text, note text,
                              shipped_at timestamptz, deleted_at timestamptz);
    CREATE TABLE shop.order_events (order_id text, kind text, recorded_at timestamptz);
"""


def run(page: str, rest: str, url: str) -> tuple[int, str]:
    [example] = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    command = [sys.executable, "-W", "error", "-c", example + rest]
    done = subprocess.run(command, env=environment(url), capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_the_example_of_claims_runs(interlock_url: str) -> None:
    execute(interlock_url, "CREATE TABLE instances (owner text, name text)")
    assert run("reference/claims.md", CREATE, interlock_url) == (0, "")
    assert execute(interlock_url, "SELECT owner FROM instances") == [("7",)]


def test_the_example_of_idempotency_runs(database_url: str) -> None:
    execute(database_url, TABLES)
    assert run("how-to/repeating.md", SHIP, database_url) == (0, "")
    assert execute(database_url, "SELECT state, note FROM shop.orders") == [("shipped", "ring")]
    assert execute(database_url, "SELECT count(*) FROM shop.order_events") == [(1,)]


def test_the_diagram_is_that_of_the_example() -> None:
    page = (DOCS / "how-to" / "repeating.md").read_text()
    [example] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    namespace: dict[str, object] = {}
    exec(example, namespace)  # noqa: S102
    picture = namespace["states"].mermaid()  # type: ignore[attr-defined]
    assert f"```mermaid\n{picture}\n```" in page
