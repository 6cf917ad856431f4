"""How a session comes about: which server, with which password, and what is said when there is none.

A URL may name several servers. They are tried in its order, and each gets its share of the time: one that swallows
everything, as a dead machine does, must not use up the time of the one that took over. The driver would let it. Who
opens several sessions begins with the server that took the last one: the dead one then costs its share once.
"""

import asyncio
import inspect
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from interlock import errors
from interlock.stores.postgres.session import Row, Session, as_line
from interlock.stores.postgres.url import ServerAddress, addresses, checked, redacted, target_session_attrs

Password = Callable[[], str | Awaitable[str]]

_OLDEST_SERVER = 14
_CACHED_STATEMENTS = 100
_TAKES_WRITES = (SessionAttribute.read_write, SessionAttribute.primary)
_GOODBYE = 0.05


async def connect(
    url: str,
    *,
    application_name: str,
    timeout: float = 10,
    statement_timeout: float | None = None,
    password: Password | None = None,
    prepared: bool = False,
    ca: str | None = None,
    ca_is_enough: bool = False,
    settings: Mapping[str, str] | None = None,
    servers: list[ServerAddress] | None = None,
) -> Session:
    """Open a session. Asks for nothing in the start-up packet that a pooler would refuse before we can explain it.

    `statement_timeout` is kept on our side: it also ends the wait for a server that cannot be reached any more.
    `password` is called for each session, in a thread unless it is a coroutine function, and beats the URL's.
    `prepared` keeps statements prepared in the server: only for a connection that leads to one server process for as
    long as it lives, which one through a pooler may not.
    `ca` is a certificate (PEM): the server has to show, over TLS, that it is the host of the URL by that one's word; if
    `ca_is_enough`, whatever its host is called.
    `settings` hold from the first moment, whatever the server's defaults are: only for a server itself, and no pooler.
    `servers` are the caller's, empty at first: those of the URL, where one that takes writes, if that is what the URL
    asks for, is put first.
    """
    shown = redacted(checked(url))
    ends_at = asyncio.get_running_loop().time() + timeout
    secret = await _asked(password, shown, ends_at) if password else None
    with _connecting(shown):
        connection = await _first_that_fits(
            url,
            servers if servers is not None else [],
            shown,
            ends_at,
            password=secret,
            command_timeout=statement_timeout,
            statement_cache_size=_CACHED_STATEMENTS if prepared else 0,
            max_cached_statement_lifetime=0,
            server_settings={**(settings or {}), "application_name": application_name[:63]},
            **({"ssl": _trusting(ca, any_host=ca_is_enough)} if ca else {}),
        )
    session = Session(connection, shown)
    if connection.get_server_version().major < _OLDEST_SERVER:
        await session.close()
        raise errors.UnsupportedServer(
            f"{shown} is PostgreSQL {connection.get_server_version().major}: "
            f"Interlock needs PostgreSQL {_OLDEST_SERVER} or newer."
        )
    return session


def _trusting(ca: str, *, any_host: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ca)
    context.check_hostname = not any_host
    return context


async def _asked(password: Password, shown: str, ends_at: float) -> str:
    """What the function answers. Its error is not quoted, because it may quote a secret itself."""
    try:
        async with asyncio.timeout_at(ends_at):
            plain = not inspect.iscoroutinefunction(password)
            answer = await asyncio.to_thread(password) if plain else password()
            secret: object = await answer if inspect.isawaitable(answer) else answer
    except Exception as error:
        raise errors.AccessDenied(
            f"There is no password for {shown}: the function that should give it ended with {type(error).__name__}."
        ) from error
    if not isinstance(secret, str):
        raise errors.ConfigurationError(
            f"The function that should give the password for {shown} gave {type(secret).__name__}: it has to give text."
        )
    return secret


async def _first_that_fits(
    url: str, servers: list[ServerAddress], shown: str, ends_at: float, **options: Any
) -> "asyncpg.Connection[Row]":
    if not servers:
        servers.extend(addresses(url))
    attempts = [(address, wanted) for wanted in _in_turn(url) for address in servers]
    refusals: list[Exception] = []
    for number, (address, wanted) in enumerate(attempts):
        left = ends_at - asyncio.get_running_loop().time()
        share = max(left, 0) / (len(attempts) - number)
        try:
            connection: asyncpg.Connection[Row] = await asyncpg.connect(
                url, host=address.host, port=address.port, target_session_attrs=wanted, timeout=share, **options
            )
        except _TRY_THE_NEXT as error:
            refusals.append(error)
        except asyncpg.PostgresError:
            await asyncio.sleep(_GOODBYE)  # the driver is still closing TLS, and the loop may be about to end
            raise
        else:
            if target_session_attrs(url) in _TAKES_WRITES:  # any other may be a standby, and has to be left again
                servers.sort(key=lambda server: server != address)
            return connection
    raise _nobody(shown, target_session_attrs(url), refusals) from refusals[-1]


def _in_turn(url: str) -> tuple[SessionAttribute | None, ...]:
    """What the servers have to be, one round of all of them after the other; None is what the URL says, if anything."""
    if target_session_attrs(url) == SessionAttribute.prefer_standby:
        return SessionAttribute.standby, SessionAttribute.any
    return (None,)


def _nobody(shown: str, wanted: str | None, refusals: list[Exception]) -> errors.StoreError:
    said = "; ".join(dict.fromkeys(map(_refusal, refusals)))
    if not any(isinstance(refusal, asyncpg.TargetServerAttributeNotMatched) for refusal in refusals):
        return errors.DatabaseUnreachable(
            f"No database answers at {shown} ({said}): check the address, and that the server runs."
        )
    if wanted in (SessionAttribute.standby, SessionAttribute.read_only):
        return errors.DatabaseUnreachable(
            f"No server at {shown} is the {wanted} one that target_session_attrs asks for ({said}): "
            "leave that out, or name more servers."
        )
    return errors.NotPrimary(
        f"No server at {shown} takes writes ({said}): name the primary too, or wait until a standby is promoted."
    )


def _refusal(error: Exception) -> str:
    wrong = isinstance(error, asyncpg.TargetServerAttributeNotMatched)
    return "one is not what target_session_attrs asks for" if wrong else as_line(error)


@contextmanager
def _connecting(shown: str) -> Iterator[None]:
    try:
        yield
    except _REFUSED as error:
        raise errors.AccessDenied(
            f"{shown} refused us ({as_line(error)}): check the user, the password and the database in the URL."
        ) from error
    except (asyncpg.InterfaceError, ValueError) as error:
        raise errors.ConfigurationError(f"The database URL {shown} cannot be used: {as_line(error)}.") from error
    except asyncpg.PostgresError as error:
        raise errors.DatabaseUnreachable(f"{shown} did not let us in: {as_line(error)}.") from error


_TRY_THE_NEXT = (
    asyncpg.CannotConnectNowError,
    asyncpg.PostgresConnectionError,
    asyncpg.TargetServerAttributeNotMatched,
    asyncpg.TooManyConnectionsError,
    OSError,
)

_REFUSED = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)
