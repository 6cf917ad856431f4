"""What the README shows runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

from support.postgres import execute
from support.programs import environment

README = Path(__file__).parents[2] / "README.md"
LEASE, GATE = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)

CALL = """
import os, psycopg
with psycopg.connect(os.environ["INTERLOCK_DATABASE_URL"], autocommit=True) as connection:
    import_feeds(connection)
locks.close()
"""


def run(code: str, url: str) -> tuple[int, str]:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env=environment(url), capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_the_readmes_lease_is_taken_and_guards_a_transaction(interlock_url: str) -> None:
    assert run(LEASE + CALL, interlock_url) == (0, "")
    assert execute(interlock_url, "SELECT name, held FROM interlock.leases_v1()") == [("feeds", False)]


def test_the_readmes_gate_is_passed(database_url: str) -> None:
    assert run(GATE, database_url) == (0, "")
    assert execute(database_url, "SELECT outcome FROM interlock.gate_run") == [("done",)]
