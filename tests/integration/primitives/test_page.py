"""The example of docs/reference/primitives.md runs unchanged."""

import re
import subprocess
import sys
from pathlib import Path

from support.postgres import execute
from support.programs import environment

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "primitives.md"
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)

CALL = """
async def main():
    async with locks, sweep:
        assert await ask_model("why?") == "WHY?"
        election = asyncio.create_task(schedule())
        assert await pay("7") == await pay("7") == "receipt for 7"
        await move("b", "a")
        await rename("catalog")
        assert len(await work()) == 1
        while not await locks.lease("scheduler").holders():
            await asyncio.sleep(0.01)
        election.cancel()
        await asyncio.wait([election])

asyncio.run(main())
"""


def test_the_example_runs(interlock_url: str) -> None:
    command = [sys.executable, "-W", "error", "-c", EXAMPLE + CALL]
    done = subprocess.run(command, env=environment(interlock_url), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert execute(interlock_url, "SELECT key FROM interlock.record ORDER BY key") == [
        ("charge:7##once",),
        ("sweep##every",),
    ]
    assert execute(interlock_url, "SELECT name FROM interlock.held_v1('')") == []
