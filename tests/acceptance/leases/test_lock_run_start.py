"""What `interlock lock run` loads: it stands in front of other commands, whose start its own modules are a part of."""

import subprocess
import sys

from support.programs import environment

# It ends without taking the interpreter apart, so that is the moment to look at what it has loaded.
TOLD = """
import os, sys
from interlock.cli import main

def leave(status, leave=os._exit):
    print(*sys.modules)
    sys.stdout.flush()
    leave(status)

os._exit = leave
main(["lock", "run", "feeds", "--", "true"])
"""

ROOMS = {
    "body", "bridge", "cli", "clock", "commands", "config", "coordination", "embedded", "errors", "identity", "logs",
    "process", "stores",
}  # fmt: skip

FOR_OTHERS = {
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

DEAR = {
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
    told = [sys.executable, "-c", TOLD]
    done = subprocess.run(told, env=environment(interlock_url), capture_output=True, text=True, timeout=50, check=True)
    loaded = set(done.stdout.split())
    assert "interlock.commands.supervised_command" in loaded
    assert {name.split(".")[1] for name in loaded if name.startswith("interlock.")} <= ROOMS
    assert not FOR_OTHERS & loaded
    assert not DEAR & loaded
    assert "interlock.commands.supervisor" not in loaded
