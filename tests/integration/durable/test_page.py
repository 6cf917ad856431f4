"""What docs/durable.md shows runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

from support.postgres import execute
from support.programs import environment

PAGE = Path(__file__).parents[3] / "docs" / "durable.md"
TABLES = """
    CREATE TABLE orders (id text PRIMARY KEY);
    CREATE TABLE reservation (key text PRIMARY KEY, order_id text, at timestamptz);
"""


def test_the_example_sells_what_was_ordered(interlock_url: str, tmp_path: Path) -> None:
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    program = tmp_path / "shop.py"
    program.write_text(code)
    execute(interlock_url, TABLES)
    command = [sys.executable, "-W", "error", str(program)]
    done = subprocess.run(command, env=environment(interlock_url), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
    assert execute(interlock_url, "SELECT key, order_id FROM reservation") == [("sale-4711/1.1", "4711")]
