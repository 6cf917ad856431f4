"""What a driver is tried on: a real system, or what stands in for one, for the length of a test."""

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
        """A new one, as another process would have it."""
        ...

    async def crash(self, verb: Verb, spec: Spec, after: int) -> bool:
        """Call the verb so that its process dies as soon as that step is done; False if there was none so late."""
        ...

    async def put_foreign(self, spec: Spec) -> Callable[[], bool]:
        """Put something that is not ours where the instance would be; the answer tells whether it still is."""
        ...

    async def leftovers(self, id: str) -> list[str]:  # noqa: A002
        """Everything that there is of the instance, asked of the system itself: processes, directories, objects."""
        ...

    async def lets_in(self, endpoint: Endpoint, password: str) -> bool | None:
        """Whether the owner can log in over TLS that is checked; None where nothing serves logins."""
        ...


@dataclass(frozen=True)
class Kind:
    """`steps`: after how many steps of each verb a crash can come; none of one that the driver has not."""

    stage: Callable[[pytest.FixtureRequest], AbstractContextManager[Stage]]
    steps: Mapping[Verb, int]


async def seen(driver: Driver, id: str, state: Observed, *, within: float = 50.0) -> Observation:  # noqa: A002
    """What is seen as soon as it is in that state."""
    try:
        async with asyncio.timeout(within):
            while (sight := await driver.observe(id)).state != state:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not {state} within {within} s; last seen: {sight}") from None
    return sight
