"""A driver and a name server on paper that fail on demand."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interlock.errors import BadSpec, DnsForeign, DriverUnreachable
from interlock.instances.drivers.port import Observation, Spec
from support.paper_driver import PaperDns, PaperDriver

_CLOSED_PORT = 1


class FailingDriver(PaperDriver):
    """`fails` names the failing step, or an instance that cannot be observed. Setting `held` lets a slow step go on.
    For the next `deaf` observations, no server listens at the observed address."""

    def __init__(self, *args: Any, fails: str = "") -> None:
        super().__init__(*args)
        self.fails = fails
        self.deaf = 0
        self.held = asyncio.Event()
        self.reached = asyncio.Event()
        self.late = asyncio.Event()
        self._leaving: set[str] = set()

    def hold(self, fails: str) -> None:
        """Make that step slow from now on."""
        self.fails = fails
        self.held.clear()
        self.reached.clear()

    async def check(self, spec: Spec) -> None:
        if self.fails == "check":
            raise BadSpec("There is no such version: choose another.")

    async def provision(self, spec: Spec) -> None:
        if self.fails == "before provision":
            raise DriverUnreachable("The driver does not answer: check it.")
        if self.fails == "late provision":
            await asyncio.shield(self._provision_late(spec))
        await super().provision(spec)
        if self.fails == "after provision":
            raise DriverUnreachable("The driver no longer answers: check it.")
        if self.fails == "slow provision":
            self.reached.set()
            await self.held.wait()

    async def _provision_late(self, spec: Spec) -> None:
        """It cannot be interrupted, like a request that was sent."""
        self.reached.set()
        await self.held.wait()
        await super().provision(spec)
        self.late.set()

    async def ids(self) -> Mapping[str, str]:
        if self.fails == "ids":
            raise DriverUnreachable("The driver does not answer: check it.")
        return await super().ids()

    async def observe(self, id: str) -> Observation:  # noqa: A002
        if self.fails == "every look":
            raise DriverUnreachable("The driver does not answer: check it.")
        if self.fails == "midway":
            return Observation("starting", detail="It waits for a node.")
        if self.fails == id:
            raise ValueError("invalid literal")
        if self.fails == "one look":
            self.fails = ""
            return Observation("stopped")
        if id in self._leaving:
            if not self.held.is_set():
                return Observation("starting", detail="It is going.")
            await super().remove(id)
        observation = await super().observe(id)
        if self.fails == "look" and observation.state != "absent":
            return Observation("broken", observation.endpoint, detail="It fell down.")
        if self.deaf and observation.endpoint is not None:
            self.deaf -= 1
            return replace(observation, endpoint=replace(observation.endpoint, port=_CLOSED_PORT))
        return observation

    async def start(self, id: str) -> None:  # noqa: A002
        if self.fails != "start":
            await super().start(id)

    async def stop(self, id: str) -> None:  # noqa: A002
        if self.fails == "stop":
            raise DriverUnreachable("The driver does not answer: check it.")
        if self.fails == "slow stop":
            self.reached.set()
            await self.held.wait()
        await super().stop(id)

    async def remove(self, id: str) -> None:  # noqa: A002
        if self.fails == "remove":
            raise DriverUnreachable("The driver does not answer: check it.")
        if self.fails == "slow remove":
            self._leaving.add(id)
            self.reached.set()
        else:
            await super().remove(id)
        if self.fails == "late provision":
            self.held.set()
            await self.late.wait()

    async def password(self, id: str) -> str:  # noqa: A002
        return "wrong" if self.fails == "password" else await super().password(id)


class FailingDns(PaperDns):
    def __init__(self, driver: FailingDriver, *args: Any) -> None:
        super().__init__(*args)
        self._driver = driver

    async def publish(self, name: str, target: str, id: str) -> None:  # noqa: A002
        if self._driver.fails == "publish":
            raise DnsForeign(f"{name} has records of another owner: choose another.", name=name, owner=None)
        await super().publish(name, target, id)
