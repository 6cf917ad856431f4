"""The way to the database: which of several servers, and with which password."""

import asyncio
import inspect
from urllib.parse import quote, urlsplit, urlunsplit

from interlock.errors import StoreError
from interlock.stores.postgres import Password, connect
from interlock.stores.postgres.direct import require_primary
from interlock.stores.postgres.url import addresses, one_by_one, target_session_attrs


def to_the_primary(url: str) -> str:
    """Of several servers, where nothing is said, the one that can be written to."""
    if len(addresses(url)) == 1 or target_session_attrs(url):
        return url
    return f"{url}{'&' if urlsplit(url).query else '?'}target_session_attrs=read-write"


async def for_the_engine(url: str, password: Password | None) -> str:
    """The engine takes a URL of one server with a fixed password: those of a session that was just let in there."""
    given: list[str] = []
    alone = list(one_by_one(url).values())
    failure: StoreError | None = None
    for candidate in alone:
        try:
            async with await connect(
                candidate,
                application_name="interlock orchestrations",
                timeout=10 / len(alone),
                password=_noted(password, given) if password else None,
            ) as session:
                await require_primary(session)
        except StoreError as error:
            failure = error
        else:
            return _with_password(candidate, given[-1]) if given else candidate
    assert failure is not None
    raise failure


def _noted(password: Password, given: list[str]) -> Password:
    async def asked() -> str:
        answer = await asyncio.to_thread(password)  # it may block; if it is a coroutine, only its making is done there
        given.append(await answer if inspect.isawaitable(answer) else answer)
        return given[-1]

    return asked


def _with_password(url: str, secret: str) -> str:
    parts = urlsplit(url)
    role, _, address = parts.netloc.rpartition("@")
    user = role.partition(":")[0]
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(secret, safe='')}@{address}"))
