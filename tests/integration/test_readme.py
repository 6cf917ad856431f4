"""What the README shows runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

from support.postgres import execute
from support.programs import environment

README = Path(__file__).parents[2] / "README.md"


def test_the_readmes_lines_run(database_url: str) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(database_url), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert execute(database_url, "SELECT outcome FROM interlock.gate_run") == [("done",)]
