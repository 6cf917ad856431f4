"""One direct connection of our own, in autocommit, whose errors are Interlock's.

This is the one place that turns the driver's errors into ours.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import asyncpg

from interlock import errors
from interlock.stores.postgres.forks import put_nothing_in_place_of

Row = asyncpg.Record

_PIECE = 1 << 16


class Session:
    """Every statement commits on its own, unless it stands in `transaction()`. Tasks that share one take turns."""

    def __init__(self, connection: "asyncpg.Connection[Row]", shown_url: str) -> None:
        self._connection = connection
        self._turns = asyncio.Lock()
        self._in_transaction: asyncio.Task[Any] | None = None
        self._unconfirmed = self._closing = False
        self.shown_url = shown_url
        connection.add_log_listener(self._heed)
        self._read_in_small_pieces()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @property
    def announced_pid(self) -> int:
        """The server process that the other end named when we connected; a pooler names one of its own invention."""
        return self._connection.get_server_pid()

    @property
    def descriptor(self) -> int | None:
        """The socket's number in this process, as long as it is open: a forked child has to close its copy."""
        line = self._transport.get_extra_info("socket")
        number = -1 if line is None else int(line.fileno())
        return number if number >= 0 else None

    @property
    def driver_connection(self) -> Any:
        """For what takes connections of users': inside `transaction()`, at whose end its errors become ours."""
        return self._connection

    @property
    def is_closed(self) -> bool:
        return self._connection.is_closed()

    @property
    def is_busy(self) -> bool:
        """Whether a statement is under way."""
        return self._turns.locked()

    def keep_alive(self, every: int) -> None:
        """Let the kernel look every so many seconds whether the other end is there, and end the connection if not.

        That also keeps open what forgets connections on which nothing passes, as many a router does.
        """
        if (descriptor := self.descriptor) is None:
            return
        with socket.socket(fileno=os.dup(descriptor)) as line:
            if line.family == socket.AF_UNIX:
                return
            line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in (("TCP_KEEPIDLE", every), ("TCP_KEEPINTVL", every), ("TCP_KEEPCNT", 3)):
                if hasattr(socket, option):
                    line.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

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
    async def transaction(self, *, longest_pause: float | None = None) -> AsyncIterator[None]:
        """`longest_pause`: when we say nothing for so many seconds, the server ends it, and the connection.

        READ COMMITTED, whatever the role's own default: what decides here is always what is so now.
        """
        async with self._turn(), self._connection.transaction(isolation="read_committed"):
            outer, self._in_transaction = self._in_transaction, asyncio.current_task()
            try:
                if longest_pause is not None:
                    milliseconds = round(longest_pause * 1000)
                    await self._connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = {milliseconds}")
                yield
            finally:
                self._in_transaction = outer

    async def listen(self, channel: str, callback: Callable[[str], None]) -> None:
        """Call back with the payload of every notification on `channel`, until the connection ends."""

        def on_notice(connection: object, pid: int, channel: str, payload: object) -> None:
            callback(str(payload))

        async with self._turn():
            await self._connection.add_listener(channel, on_notice)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call back as soon as the connection is known to have ended, whoever ended it."""
        self._connection.add_termination_listener(lambda _: callback())

    async def close(self, timeout: float = 2) -> None:
        """Say goodbye; when that cannot be said in time, hang up. A statement that is under way is cancelled."""
        self._closing = True
        try:
            await self._connection.close(timeout=timeout)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError):
            await self.abort()

    def hang_up(self) -> None:
        """Without a word; the event loop then closes the socket, if it still runs."""
        self._connection.terminate()

    def sever(self) -> None:
        """Close our end under the driver, which cannot do that: its event loop has ended, or is the parent's."""
        if (descriptor := self.descriptor) is not None:
            put_nothing_in_place_of(descriptor)

    async def abort(self) -> None:
        """Hang up, and see the socket closed."""
        self.hang_up()
        await asyncio.sleep(0)  # the socket is closed by the event loop, which may be about to end

    @property
    def _transport(self) -> Any:
        return self._connection._transport  # type: ignore[attr-defined] # the only way to it

    def _read_in_small_pieces(self) -> None:
        """asyncio makes room for 256 KiB before each read, and the C library asks the kernel for so much each time, and
        gives it back: that took longer than the read itself. What is longer comes in several."""
        if getattr(self._transport, "max_size", 0) > _PIECE:
            self._transport.max_size = _PIECE

    def _heed(self, connection: object, message: asyncpg.PostgresLogMessage) -> None:
        """A commit whose wait for the standby was cut short is reported as done; by its words only in English."""
        if getattr(message, "server_source_function", None) == "SyncRepWaitForLSN":
            self._unconfirmed = True

    def _turn(self) -> "_Turn":
        return _Turn(self)

    def _translated(self, error: BaseException) -> errors.StoreError | None:
        """Ours for the driver's; None for an error that is nobody's business here."""
        match error:
            case asyncpg.InsufficientPrivilegeError():
                return errors.PermissionMissing(
                    f"The database role may not do this ({as_line(error)}): "
                    "let an owner run `interlock schema apply` and `interlock schema grant ROLE`."
                )
            case asyncpg.LockNotAvailableError():
                return errors.LockNotAvailable(f"A lock was not to be had in time: {as_line(error)}.")
            case asyncpg.PostgresError() if isinstance(error, _ENDED) or error.severity_en in _LAST_WORDS:
                return self._ended(error)
            case asyncpg.QueryCanceledError() if self._closing:  # it was not the server that did not want it
                return self._ended(error)
            case asyncpg.PostgresError() if self._is_for_the_primary(error):
                return errors.NotPrimary(
                    f"{self.shown_url} takes no writes ({as_line(error)}): give the URL the primary's address, "
                    "or every server's, with commas between them, and target_session_attrs=read-write."
                )
            case asyncpg.PostgresError():
                return errors.StatementFailed(
                    f"PostgreSQL refused a statement: {as_line(error)}.", sqlstate=error.sqlstate
                )
            case asyncpg.InternalClientError():  # the server's farewell was read, and the end of the wire was not
                self.hang_up()
                return self._ended(error)
            case asyncpg.InterfaceError():
                return self._ended(error) if self._connection.is_closed() else None
            case TimeoutError():
                return errors.DatabaseUnreachable(f"{self.shown_url} did not answer in time.")
            case OSError():
                return self._ended(error)
            case _:
                return None

    def _ended(self, error: BaseException) -> errors.ConnectionLost:
        return errors.ConnectionLost(f"The connection to {self.shown_url} ended: {as_line(error)}.")

    def _is_for_the_primary(self, error: asyncpg.PostgresError) -> bool:
        """The codes mean other things too. A server in recovery says so by itself; a pooler may keep that back."""
        if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
            return True
        in_recovery = getattr(self._connection.get_settings(), "in_hot_standby", None)
        stands_by = in_recovery == "on" or (in_recovery is None and "recovery" in str(error))
        return stands_by and error.sqlstate in _NOT_IN_RECOVERY


class _Turn:
    """A task's turn on the session, in which the driver's errors become ours. A class, because each statement has one:
    a generator would cost a third of what the driver itself takes."""

    __slots__ = ("_session", "_taken")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._taken = False

    async def __aenter__(self) -> None:
        if self._session._in_transaction is None or self._session._in_transaction is not asyncio.current_task():
            await self._session._turns.acquire()
            self._taken = True

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        unconfirmed = False
        if self._taken:
            unconfirmed, self._session._unconfirmed = self._session._unconfirmed, False
            self._session._turns.release()
        if error is not None:
            if ours := self._session._translated(error):
                raise ours from error
        elif unconfirmed:
            raise errors.DatabaseUnreachable(
                f"{self._session.shown_url} did this without its standby, which did not answer: it may be lost."
            )


_NOT_IN_RECOVERY = (
    asyncpg.ObjectNotInPrerequisiteStateError.sqlstate,
    asyncpg.FeatureNotSupportedError.sqlstate,  # unlogged tables, for one
)

_LAST_WORDS = ("FATAL", "PANIC")  # with these the server ends the session, whatever for: time-outs, a dropped database

_ENDED = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleSessionTimeoutError,
)


def as_line(error: BaseException) -> str:
    """An error as part of a sentence of ours."""
    text = " ".join(str(error).split()).rstrip(".")
    return text or type(error).__name__
