"""The examples in docs/reference/durable.md run as they are printed there."""

import re
import subprocess
import sys
from pathlib import Path

from support.postgres import execute
from support.programs import environment

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "durable.md"
TABLES = """
    CREATE TABLE orders (id text PRIMARY KEY);
    CREATE TABLE reservation (key text PRIMARY KEY, order_id text, at timestamptz);
"""


def run(number: int, url: str, directory: Path) -> str:
    program = directory / "shop.py"
    program.write_text(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[number])
    command = [sys.executable, "-W", "error", str(program)]
    done = subprocess.run(command, env=environment(url), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_example_sells_what_was_ordered(interlock_url: str, tmp_path: Path) -> None:
    execute(interlock_url, TABLES)
    assert run(0, interlock_url, tmp_path) == "3\n"
    assert execute(interlock_url, "SELECT key, order_id FROM reservation") == [("sale-4711/1.1", "4711")]


def test_the_example_without_an_event_loop_delivers(interlock_url: str, tmp_path: Path) -> None:
    assert run(1, interlock_url, tmp_path) == "mail-4712/1.1\n"
