"""The modules that `interlock lock run` imports: their import delays the start of every command behind it."""

import subprocess
import sys

from support.programs import environment

# It ends without a shutdown of the interpreter, so the loaded modules are read at that moment.
REPORT = """
import os, sys
from interlock.cli import main

def leave(status, leave=os._exit):
    print(*sys.modules)
    sys.stdout.flush()
    leave(status)

os._exit = leave
main(["lock", "run", "feeds", "--", "true"])
"""

PACKAGES = {
    "block_body", "bridge", "cli", "clock", "config", "coordination", "embedded", "errors", "identity", "logs",
    "process", "stores", "supervision",
}  # fmt: skip

NOT_NEEDED = {
    "interlock.coordination.claims",
    "interlock.coordination.events",
    "interlock.coordination.observation.metric_catalogue",
    "interlock.coordination.guards",
    "interlock.coordination.primitives.once",
    "interlock.coordination.primitives.periodic",
    "interlock.coordination.primitives.user_records",
    "interlock.coordination.sync.grant",
    "interlock.coordination.sync.lease",
    "interlock.coordination.sync.root",
    "interlock.embedded.cluster",
    "interlock.stores.dynamodb",
    "interlock.stores.sqlite",
}

SLOW_TO_IMPORT = {
    "difflib",
    "email",
    "http",
    "importlib.metadata",
    "importlib.resources",
    "multiprocessing",
    "tomllib",
    "unittest",
}


def test_a_command_under_a_lease_loads_nothing_that_it_does_not_need(interlock_url: str) -> None:
    report = [sys.executable, "-c", REPORT]
    done = subprocess.run(
        report, env=environment(interlock_url), capture_output=True, text=True, timeout=50, check=True
    )
    loaded = set(done.stdout.split())
    assert "interlock.supervision.supervised_command" in loaded
    assert {name.split(".")[1] for name in loaded if name.startswith("interlock.")} <= PACKAGES
    assert not NOT_NEEDED & loaded
    assert not SLOW_TO_IMPORT & loaded
    assert "interlock.supervision.supervisor" not in loaded
