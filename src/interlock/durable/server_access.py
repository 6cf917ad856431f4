"""Access to the database: the choice of the primary among several servers, and the password."""

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from interlock.errors import StoreError
from interlock.stores.postgres import Password, Session, connect
from interlock.stores.postgres.direct_connection import require_primary
from interlock.stores.postgres.url import one_by_one

_TIMEOUT = 10.0
_TURN = 30.0
"""Seconds that a replica waits while other replicas create or check the engine's tables."""


@asynccontextmanager
async def primary_access(url: str, password: Password | None) -> AsyncIterator[tuple[str, Session]]:
    """Yields a URL of the primary with a fixed password, which the server has just accepted, and a session.

    The engine accepts only such a URL, and it freezes the process if the server does not answer. The session shows that
    the server answers.
    """
    given: list[str] = []
    server, session = await _primary(url, _noted(password, given) if password else None)
    async with session:
        yield _with_password(server, given[-1]) if given else server, session


async def _primary(url: str, password: Password | None) -> tuple[str, Session]:
    servers = list(one_by_one(url).values())
    failure: StoreError | None = None
    for server in servers:
        try:
            return server, await primary_session(
                server,
                application_name="interlock orchestrations",
                timeout=_TIMEOUT / len(servers),
                statement_timeout=_TURN,
                password=password,
            )
        except StoreError as error:
            failure = error
    assert failure is not None
    raise failure


async def primary_session(url: str, **options: Any) -> Session:
    session = await connect(url, **options)
    try:
        await require_primary(session)
    except StoreError:
        await session.close()
        raise
    return session


def _noted(password: Password, given: list[str]) -> Password:
    async def asked() -> str:
        answer = await asyncio.to_thread(password)  # it may block; of a coroutine function, only the call runs there
        given.append(await answer if inspect.isawaitable(answer) else answer)
        return given[-1]

    return asked


def _with_password(url: str, secret: str) -> str:
    """Returns the URL with this password, which replaces a password in the address or in the parameters."""
    parts = urlsplit(url)
    role, _, address = parts.netloc.rpartition("@")
    user = role.partition(":")[0]
    query = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name != "password"])
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(secret, safe='')}@{address}", query=query))
