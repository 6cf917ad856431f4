"""One direct connection of our own, in autocommit, whose errors are Interlock's.

This is the one place that turns the driver's errors into ours.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self

import asyncpg

from interlock import errors
from interlock.stores.postgres.url import checked, redacted

_OLDEST_SERVER = 14

Row = asyncpg.Record


class Session:
    """Every statement commits on its own, unless it stands in `transaction()`. Tasks that share one take turns."""

    def __init__(self, connection: "asyncpg.Connection[Row]", shown_url: str) -> None:
        self._connection = connection
        self._turns = asyncio.Lock()
        self._in_transaction: asyncio.Task[Any] | None = None
        self.shown_url = shown_url

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @property
    def announced_pid(self) -> int:
        """The server process that the other end named when we connected; a pooler names one of its own invention."""
        return self._connection.get_server_pid()

    @property
    def is_closed(self) -> bool:
        return self._connection.is_closed()

    async def fetch(self, sql: str, *args: Any, timeout: float | None = None) -> list[Row]:
        async with self._turn():
            return await self._connection.fetch(sql, *args, timeout=timeout)

    async def fetchrow(self, sql: str, *args: Any, timeout: float | None = None) -> Row | None:
        async with self._turn():
            return await self._connection.fetchrow(sql, *args, timeout=timeout)

    async def fetchval(self, sql: str, *args: Any, timeout: float | None = None) -> Any:
        async with self._turn():
            return await self._connection.fetchval(sql, *args, timeout=timeout)

    async def execute(self, sql: str, *args: Any, timeout: float | None = None) -> str:
        """Without arguments `sql` may be a whole script."""
        async with self._turn():
            return await self._connection.execute(sql, *args, timeout=timeout)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        async with self._turn(), self._connection.transaction():
            outer, self._in_transaction = self._in_transaction, asyncio.current_task()
            try:
                yield
            finally:
                self._in_transaction = outer

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call back as soon as the connection is known to have ended, whoever ended it."""
        self._connection.add_termination_listener(lambda _: callback())

    async def close(self, timeout: float = 2) -> None:
        """Say goodbye; when that cannot be said in time, hang up."""
        try:
            await self._connection.close(timeout=timeout)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError):
            await self.abort()

    def hang_up(self) -> None:
        """Without a word; the event loop then closes the socket, if it still runs."""
        self._connection.terminate()

    async def abort(self) -> None:
        """Hang up, and see the socket closed."""
        self.hang_up()
        await asyncio.sleep(0)  # the socket is closed by the event loop, which may be about to end

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if self._in_transaction is asyncio.current_task():
            with self._translated():
                yield
            return
        async with self._turns:
            with self._translated():
                yield

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _ENDED as error:
            raise errors.ConnectionLost(f"The connection to {self.shown_url} ended: {_line(error)}.") from error
        except asyncpg.InsufficientPrivilegeError as error:
            raise errors.PermissionMissing(
                f"The database role may not do this ({_line(error)}): "
                "let an owner run `interlock schema apply` and `interlock schema grant ROLE`."
            ) from error
        except asyncpg.LockNotAvailableError as error:
            raise errors.LockNotAvailable(f"A lock was not to be had in time: {_line(error)}.") from error
        except asyncpg.PostgresError as error:
            raise errors.StatementFailed(
                f"PostgreSQL refused a statement: {_line(error)}.", sqlstate=error.sqlstate
            ) from error
        except asyncpg.InternalClientError as error:  # the server's farewell was read, and the end of the wire was not
            self.hang_up()
            raise errors.ConnectionLost(f"The connection to {self.shown_url} ended: {_line(error)}.") from error
        except asyncpg.InterfaceError as error:
            if not self._connection.is_closed():
                raise
            raise errors.ConnectionLost(f"The connection to {self.shown_url} ended: {_line(error)}.") from error
        except TimeoutError as error:
            raise errors.DatabaseUnreachable(f"{self.shown_url} did not answer in time.") from error
        except OSError as error:
            raise errors.ConnectionLost(f"The connection to {self.shown_url} ended: {_line(error)}.") from error


async def connect(
    url: str, *, application_name: str, timeout: float = 10, statement_timeout: float | None = None
) -> Session:
    """Open a session. Asks for nothing in the start-up packet that a pooler would refuse before we can explain it.

    `statement_timeout` is kept on our side: it also ends the wait for a server that cannot be reached any more.
    """
    shown = redacted(checked(url))
    with _connecting(shown):
        connection = await asyncpg.connect(
            url,
            timeout=timeout,
            command_timeout=statement_timeout,
            statement_cache_size=0,
            server_settings={"application_name": application_name[:63]},
        )
    session = Session(connection, shown)
    if connection.get_server_version().major < _OLDEST_SERVER:
        await session.close()
        raise errors.UnsupportedServer(
            f"{shown} is PostgreSQL {connection.get_server_version().major}: "
            f"Interlock needs PostgreSQL {_OLDEST_SERVER} or newer."
        )
    return session


@contextmanager
def _connecting(shown: str) -> Iterator[None]:
    try:
        yield
    except _REFUSED as error:
        raise errors.AccessDenied(
            f"{shown} refused us ({_line(error)}): check the user, the password and the database in the URL."
        ) from error
    except (asyncpg.CannotConnectNowError, asyncpg.TooManyConnectionsError, TimeoutError, OSError) as error:
        raise errors.DatabaseUnreachable(
            f"No database answers at {shown} ({_line(error)}): check the address, and that the server runs."
        ) from error
    except (asyncpg.InterfaceError, ValueError) as error:
        raise errors.ConfigurationError(f"The database URL {shown} cannot be used: {_line(error)}.") from error
    except asyncpg.PostgresError as error:
        raise errors.DatabaseUnreachable(f"{shown} did not let us in: {_line(error)}.") from error


_REFUSED = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)

_ENDED = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleSessionTimeoutError,
    ConnectionError,
)


def _line(error: BaseException) -> str:
    """An error as part of a sentence of ours."""
    text = " ".join(str(error).split()).rstrip(".")
    return text or type(error).__name__
