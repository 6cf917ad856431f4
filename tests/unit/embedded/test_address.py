"""Looking for a cluster is part of the start of every command that was told of no database."""

import subprocess
import sys

LOOK = """
import sys
from pathlib import Path
from interlock.embedded import running_url

assert running_url(Path(sys.argv[1])) is None
print(*(name for name in sys.modules if name.startswith("interlock.embedded.")))
"""


def test_whoever_looks_for_a_cluster_loads_nothing_that_makes_or_runs_one(tmp_path: object) -> None:
    look = [sys.executable, "-c", LOOK, str(tmp_path)]
    loaded = subprocess.run(look, capture_output=True, text=True, timeout=50, check=True).stdout.split()
    rooms = {"accounts", "address", "files", "layout", "postmaster", "processes", "reach"}
    assert {name.rpartition(".")[2] for name in loaded} == rooms
