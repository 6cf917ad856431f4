"""The system that a driver is tested on: a real one, or a stand-in, for the length of a test."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

import pytest

from interlock.instances.drivers.port import Driver, Endpoint, Observation, Observed, Spec

Verb = Literal["provision", "remove", "use_certificate"]


class Stage(Protocol):
    def driver(self) -> Driver:
        """A new driver object, as another process would have it."""
        ...

    async def crash(self, verb: Verb, spec: Spec, after: int) -> bool:
        """Run the operation in a process that dies after that step. Return False if it has fewer steps."""
        ...

    async def put_foreign(self, spec: Spec) -> Callable[[], bool]:
        """Put a foreign resource where the instance would be. The result returns True while it is unchanged."""
        ...

    async def leftovers(self, id: str) -> list[str]:  # noqa: A002
        """All resources of the instance, read from the system itself: processes, directories, objects."""
        ...

    async def lets_in(self, endpoint: Endpoint, password: str) -> bool | None:
        """True if the owner can log in over verified TLS; None if nothing serves logins."""
        ...


@dataclass(frozen=True)
class Kind:
    """`steps` is the number of steps of each operation after which a crash can come."""

    stage: Callable[[pytest.FixtureRequest], AbstractContextManager[Stage]]
    steps: Mapping[Verb, int]


async def seen(driver: Driver, id: str, state: Observed, *, within: float = 50.0) -> Observation:  # noqa: A002
    """The first observation in that state."""
    try:
        async with asyncio.timeout(within):
            while (observation := await driver.observe(id)).state != state:  # noqa: ASYNC110 - a driver has no signal for it
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not {state} within {within} s; last seen: {observation}") from None
    return observation
