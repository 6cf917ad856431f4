"""A replica that stops in the middle of a step, and the next one that repeats the step."""

import asyncio
from pathlib import Path

import pytest

from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Spec
from interlock.server import control
from support.api import count, working_api
from support.paper_driver import PaperDriver


class Slow(PaperDriver):
    """Accepts a request to provision and never completes it."""

    began: asyncio.Event

    async def provision(self, spec: Spec) -> None:
        self.began.set()
        await asyncio.Event().wait()


async def test_a_step_that_does_not_end_is_interrupted_and_repeated_by_the_next_replica(
    url: str, real: LocalDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "_STOP_TIMEOUT", 0.1)
    slow = Slow(lambda: url, lambda: real)
    slow.began = asyncio.Event()
    async with working_api(url, tmp_path, slow) as first:
        shop = await first.create("shop")
        await slow.began.wait()
    async with working_api(url, tmp_path, PaperDriver(lambda: url, lambda: real)) as second:
        settled = await second.settled("shop")
    assert (settled["id"], settled["state"], settled["error"]) == (shop["id"], "running", None)
    assert count(url, "instance") == 1
