"""Requests to DynamoDB, with short timeouts and Interlock's own retries.

botocore would wait for a minute and try ten times, which is longer than a lease. Interlock gives an attempt a second
and a half, and repeats attempts at random intervals while an answer can still come before the caller's deadline. If any
attempt may have taken effect without an answer, the error's type says so, and the caller has to find out.

A connection carries one request at a time, and there are as many connections as requests: a renewal never waits for
another request.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import cache
from typing import Any

from aiobotocore.config import AioConfig
from aiobotocore.session import get_session
from botocore.exceptions import BotoCoreError, ClientError

from interlock import errors
from interlock.clock import boottime
from interlock.logs import events
from interlock.stores.dynamodb.address import TableAddress
from interlock.stores.dynamodb.driver_errors import classified

log = events(__name__)

_LONGEST_ATTEMPT, _SHORTEST_ATTEMPT = 1.5, 0.25
_FIRST_PAUSE, _LONGEST_PAUSE = 0.025, 1.0
_MOST_CONNECTIONS = 1000


class Client:
    """A client of one table. Its connections are opened when it is first used."""

    def __init__(self, address: TableAddress) -> None:
        self.address = address
        self._stack = AsyncExitStack()
        self._client: Any = None
        self._is_closed = False
        self._opening = asyncio.Lock()
        self._active_calls = 0
        self._used_at = boottime()

    @property
    def is_open(self) -> bool:
        return self._client is not None

    async def call(self, operation: str, ends_at: float, **parameters: Any) -> dict[str, Any]:
        """Raises `ConditionFailed`, or Interlock's errors. `ends_at`: deadline of all attempts, by `boottime()`."""
        self._active_calls += 1
        try:
            return await self._attempts(operation, ends_at, parameters)
        finally:
            self._active_calls -= 1
            self._used_at = boottime()

    async def _attempts(self, operation: str, ends_at: float, parameters: dict[str, Any]) -> dict[str, Any]:
        longest = min(_LONGEST_ATTEMPT, max((ends_at - boottime()) / 2, _SHORTEST_ATTEMPT))
        pause = _FIRST_PAUSE
        doubt: Exception | None = None
        while True:
            try:
                async with asyncio.timeout(min(longest, max(ends_at - boottime(), 0.0))):
                    method: Callable[..., Awaitable[dict[str, Any]]] = getattr(await self._connected(), operation)
                    return await method(**parameters)
            except (BotoCoreError, ClientError, TimeoutError, OSError) as error:
                failure = classified(error, self.address, operation)
                if not failure.retryable:
                    raise failure.error from error
                if failure.in_doubt:
                    doubt = failure.error
                until_next = random.uniform(0.0, pause)
                # No attempt that would be cut off: its outcome would be unknown.
                if self._is_closed or boottime() + until_next + _SHORTEST_ATTEMPT > ends_at:
                    raise (doubt or failure.error) from error
                log.debug("dynamodb.asked_again", extra={"operation": operation, "why": str(failure.error)})
            await asyncio.sleep(until_next)
            if self._is_closed:
                raise doubt or failure.error
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _connected(self) -> Any:
        if self._client is None:
            async with self._opening:
                if self._is_closed:
                    raise errors.ConfigurationError("This Interlock was closed: open it again.")
                if self._client is None:
                    self._client = await self._open()
        return self._client

    async def _open(self) -> Any:
        session = get_session()
        session.register_component("data_loader", _models())
        config = AioConfig(
            connect_timeout=_LONGEST_ATTEMPT,
            read_timeout=_LONGEST_ATTEMPT,
            max_pool_connections=_MOST_CONNECTIONS,
            parameter_validation=False,  # this and the next one are a third of what a request costs this process
            user_agent="interlock",
            retries={"total_max_attempts": 1, "mode": "standard"},
            tcp_keepalive=True,
        )
        address = self.address
        without_tls = (address.endpoint or "").startswith("http:")  # without TLS there is no certificate to verify
        return await self._stack.enter_async_context(
            session.create_client(
                "dynamodb",
                region_name=address.region,
                endpoint_url=address.endpoint,
                verify=False if without_tls else None,
                config=config,
            )
        )

    async def close_idle(self, idle_for: float) -> None:
        if not self._active_calls and self._used_at + idle_for <= boottime():
            await self._disconnect()

    async def close(self) -> None:
        """Close for good. A request that is under way fails, and does not open connections again."""
        self._is_closed = True
        await self._disconnect()

    async def _disconnect(self) -> None:
        async with self._opening:
            self._client = None
            stack, self._stack = self._stack, AsyncExitStack()
            await stack.aclose()

    def sever(self) -> None:
        """Drop the connections without closing them: the event loop has ended. DynamoDB keeps no state for them."""
        self._client = None
        self._stack = AsyncExitStack()


@cache
def _models() -> Any:
    """Returns botocore's description of AWS, which takes a while to read and is the same for every client."""
    return get_session().get_component("data_loader")
