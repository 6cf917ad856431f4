"""The first Python example of docs/how-to/gate.md runs as printed."""

import re
import subprocess
import sys
from pathlib import Path

from support.postgres import execute
from support.programs import environment

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "gate.md"
FIRST = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]


def test_the_gate_is_passed_and_recorded(database_url: str) -> None:
    command = [sys.executable, "-W", "error", "-c", FIRST]
    done = subprocess.run(command, env=environment(database_url), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert execute(database_url, "SELECT outcome FROM interlock.gate_run") == [("done",)]
