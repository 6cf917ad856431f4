"""The event loop of the tests and of the programs that they start: uvloop if INTERLOCK_TEST_LOOP names it."""

import os
import sys
from importlib import import_module
from pathlib import Path

_ON_UVLOOP = Path(__file__).parents[1] / "on_uvloop"


def choose() -> None:
    loop = os.environ.get("INTERLOCK_TEST_LOOP", "asyncio")
    if loop == "asyncio":
        return
    assert loop == "uvloop", f"INTERLOCK_TEST_LOOP is {loop}: there are asyncio and uvloop."
    path = filter(None, [str(_ON_UVLOOP), os.environ.get("PYTHONPATH")])
    os.environ["PYTHONPATH"] = os.pathsep.join(path)
    sys.path.insert(0, str(_ON_UVLOOP))
    sys.modules.pop("sitecustomize", None)
    import_module("sitecustomize")
