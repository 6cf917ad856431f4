"""Processes that die when an activity has taken effect, before the engine gets its result.

python -m support.durable_victim URL MODULE              a replica; dies once after each step in the table `victim`
python -m support.durable_victim URL MODULE ACTIVITY ID INPUT   runs that activity alone, and dies
"""

import asyncio
import json
import os
import sys
from importlib import import_module
from signal import SIGKILL
from typing import Any

import psycopg

from interlock.durable.database import EngineDatabase
from interlock.durable.declarations import Registry
from interlock.durable.worker import ActivityWorker
from support.durable_worker import take_part

VICTIMS = "CREATE TABLE victim (key text PRIMARY KEY, died boolean NOT NULL DEFAULT false)"
_DIES = "UPDATE victim SET died = true WHERE key = %s AND NOT died RETURNING key"


class DyingWorker(ActivityWorker):
    def perform(self, name: str, context: Any, content: Any) -> Any:
        """Run the activity, and kill the process after its first run, whether it succeeded or failed."""
        try:
            return super().perform(name, context, content)
        finally:
            key = f"{context.instance_id}/{context.execution_id}.{content['step']}"
            with psycopg.connect(os.environ["STEPS_URL"]) as connection:
                dies = connection.execute(_DIES, [key]).fetchone() is not None
            if dies:
                os.kill(os.getpid(), SIGKILL)


class Context:
    """The part of the engine's context that an activity's thread reads."""

    def __init__(self, id: str) -> None:  # noqa: A002
        self.instance_id = id
        self.execution_id = 1

    def is_cancelled(self) -> bool:
        return False


async def perform(url: str, module: str, activity: str, id: str, plain: Any) -> Any:  # noqa: A002
    """One attempt at the first step of an orchestration, as the engine would have it made."""
    declared = Registry(*import_module(module).parts)
    database = EngineDatabase(url, "interlock")
    try:
        working = ActivityWorker(declared, database, asyncio.get_running_loop())
        content = {"root": id, "step": 1, "input": plain}
        return await asyncio.to_thread(working.perform, activity, Context(id), content)
    finally:
        await database.close()


async def perform_and_die(url: str, module: str, activity: str, id: str, text: str) -> None:  # noqa: A002
    await perform(url, module, activity, id, json.loads(text))
    os.kill(os.getpid(), SIGKILL)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        asyncio.run(perform_and_die(*sys.argv[1:]))
    else:
        import interlock.durable.replica

        interlock.durable.replica.ActivityWorker = DyingWorker  # type: ignore[attr-defined]
        asyncio.run(take_part(*sys.argv[1:]))
