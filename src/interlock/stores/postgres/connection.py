"""Opens sessions: chooses the server, gets the password, and explains failures.

A URL may name several servers. Interlock tries them in the URL's order, and each server gets its share of the timeout.
So a dead machine, which does not answer at all, cannot use up the time of the server that took over, as it would in the
driver. A caller that opens several sessions begins with the server that accepted the last session, so that a dead
server costs its share of the timeout only once.
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
_CLOSING_TLS = 0.05


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
    """Open a session. The start-up packet has no parameters that a pooler would refuse without an explanation.

    `statement_timeout` is measured by this process, so it also ends the wait for an unreachable server.
    `password` is called for each session, in a thread unless it is a coroutine function, and overrides the URL's.
    `prepared` keeps statements prepared in the server. Use it only without a pooler, which may change the server
    process during a connection.
    `ca` is a certificate (PEM) by which the server has to prove, over TLS, that it is the host of the URL. With
    `ca_is_enough`, the server may have any host name.
    `settings` apply from the session's start, whatever the server's defaults are. Poolers may refuse them.
    `servers` is a list that the caller keeps, empty at first. It receives the URL's servers; if the URL asks for a
    server that takes writes, the server that accepted the connection is moved to the front.
    """
    shown = redacted(checked(url))
    ends_at = asyncio.get_running_loop().time() + timeout
    secret = await _password_from(password, shown, ends_at) if password else None
    with _connecting(shown):
        connection = await _first_suitable(
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


async def _password_from(password: Password, shown: str, ends_at: float) -> str:
    """Returns the password from the function. An error of the function is not quoted: it may contain a secret."""
    try:
        async with asyncio.timeout_at(ends_at):
            plain = not inspect.iscoroutinefunction(password)
            answer = await asyncio.to_thread(password) if plain else password()
            secret: object = await answer if inspect.isawaitable(answer) else answer
    except Exception as error:
        raise errors.AccessDenied(
            f"There is no password for {shown}, because the function that has to return it raised "
            f"{type(error).__name__}: correct the function."
        ) from error
    if not isinstance(secret, str):
        raise errors.ConfigurationError(
            f"The password function for {shown} returned {type(secret).__name__}: the function has to return a string."
        )
    return secret


async def _first_suitable(
    url: str, servers: list[ServerAddress], shown: str, ends_at: float, **options: Any
) -> "asyncpg.Connection[Row]":
    if not servers:
        servers.extend(addresses(url))
    attempts = [(address, wanted) for wanted in _wanted_roles(url) for address in servers]
    refusals: list[Exception] = []
    for number, (address, wanted) in enumerate(attempts):
        remaining = ends_at - asyncio.get_running_loop().time()
        share = max(remaining, 0) / (len(attempts) - number)
        try:
            connection: asyncpg.Connection[Row] = await asyncpg.connect(
                url, host=address.host, port=address.port, target_session_attrs=wanted, timeout=share, **options
            )
        except _TRY_THE_NEXT as error:
            refusals.append(error)
        except asyncpg.PostgresError:
            await asyncio.sleep(_CLOSING_TLS)  # the driver is still closing TLS, and the event loop may be about to end
            raise
        else:
            if target_session_attrs(url) in _TAKES_WRITES:  # else it may be a standby, not to be preferred
                servers.sort(key=lambda server: server != address)
            return connection
    raise _unreachable(shown, target_session_attrs(url), refusals) from None


def _wanted_roles(url: str) -> tuple[SessionAttribute | None, ...]:
    """Returns the roles to try all servers for, one after the other. None: the role that the URL names, if any."""
    if target_session_attrs(url) == SessionAttribute.prefer_standby:
        return SessionAttribute.standby, SessionAttribute.any
    return (None,)


def _unreachable(shown: str, wanted: str | None, refusals: list[Exception]) -> errors.StoreError:
    reasons = "; ".join(dict.fromkeys(map(_refusal, refusals)))
    if not any(isinstance(refusal, asyncpg.TargetServerAttributeNotMatched) for refusal in refusals):
        return errors.DatabaseUnreachable(
            f"No database answers at {shown} ({reasons}): check the address, and check that the server runs."
        )
    if wanted in (SessionAttribute.standby, SessionAttribute.read_only):
        return errors.DatabaseUnreachable(
            f"No server at {shown} is {wanted}, as target_session_attrs requires ({reasons}): "
            "leave target_session_attrs out, or name more servers."
        )
    return errors.NotPrimary(
        f"No server at {shown} takes writes ({reasons}): name the primary too, or wait until a standby is promoted."
    )


def _refusal(error: Exception) -> str:
    wrong = isinstance(error, asyncpg.TargetServerAttributeNotMatched)
    return "one server is not what target_session_attrs requires" if wrong else as_line(error)


@contextmanager
def _connecting(shown: str) -> Iterator[None]:
    """Turns the driver's errors into Interlock's. An error that says all that the driver said has no cause."""
    try:
        yield
    except _ACCESS_REFUSED as error:
        raise errors.AccessDenied(
            f"{shown} refused this process ({as_line(error)}): check the URL's user, password and database."
        ) from None
    except (asyncpg.InterfaceError, ValueError) as error:
        raise errors.ConfigurationError(f"The database URL {shown} cannot be used: {as_line(error)}.") from None
    except asyncpg.PostgresError as error:
        raise errors.DatabaseUnreachable(f"{shown} did not accept the connection: {as_line(error)}.") from error


_TRY_THE_NEXT = (
    asyncpg.CannotConnectNowError,
    asyncpg.PostgresConnectionError,
    asyncpg.TargetServerAttributeNotMatched,
    asyncpg.TooManyConnectionsError,
    OSError,
)

_ACCESS_REFUSED = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)
