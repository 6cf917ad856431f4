"""One connection of Interlock's own, in autocommit mode, which raises Interlock's errors.

Only this module turns the driver's errors into Interlock's.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import asyncpg

from interlock import errors
from interlock.stores.postgres.forks import replace_with_devnull

Row = asyncpg.Record

_READ_SIZE = 1 << 16


class Session:
    """A connection on which every statement commits on its own, unless it is in `transaction()`.

    Tasks may share a session: the next task waits until the statement or transaction of the other task has ended.
    """

    def __init__(self, connection: "asyncpg.Connection[Row]", shown_url: str) -> None:
        self._connection = connection
        self._lock = asyncio.Lock()
        self._in_transaction: asyncio.Task[Any] | None = None
        self._unconfirmed = self._closing = False
        self.shown_url = shown_url
        connection.add_log_listener(self._on_log_message)
        self._limit_read_size()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @property
    def announced_pid(self) -> int:
        """The server process that was announced at the connection's start. A pooler announces an invented process."""
        return self._connection.get_server_pid()

    @property
    def descriptor(self) -> int | None:
        """The socket's descriptor, while it is open: a forked child has to close its copy."""
        socket_ = self._transport.get_extra_info("socket")
        number = -1 if socket_ is None else int(socket_.fileno())
        return number if number >= 0 else None

    @property
    def driver_connection(self) -> Any:
        """The driver's connection, for functions that take a user's connection.

        Use it inside `transaction()`, which converts its errors.
        """
        return self._connection

    @property
    def is_closed(self) -> bool:
        return self._connection.is_closed()

    @property
    def is_busy(self) -> bool:
        """True while a statement is under way."""
        return self._lock.locked()

    def keep_alive(self, every: int) -> None:
        """Let the kernel probe the server's machine after `every` silent seconds, and end the connection if it is gone.

        The probes also stop routers from dropping the connection as silent.
        """
        if (descriptor := self.descriptor) is None:
            return
        with socket.socket(fileno=os.dup(descriptor)) as socket_:
            if socket_.family == socket.AF_UNIX:
                return
            socket_.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in (("TCP_KEEPIDLE", every), ("TCP_KEEPINTVL", every), ("TCP_KEEPCNT", 3)):
                if hasattr(socket, option):
                    socket_.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    async def fetch(self, sql: str, *args: Any, timeout: float | None = None) -> list[Row]:
        async with self._exclusive():
            return await self._connection.fetch(sql, *args, timeout=timeout)

    async def fetchrow(self, sql: str, *args: Any, timeout: float | None = None) -> Row | None:
        async with self._exclusive():
            return await self._connection.fetchrow(sql, *args, timeout=timeout)

    async def fetchval(self, sql: str, *args: Any, timeout: float | None = None) -> Any:
        async with self._exclusive():
            return await self._connection.fetchval(sql, *args, timeout=timeout)

    async def execute(self, sql: str, *args: Any, timeout: float | None = None) -> str:
        """Execute a statement; without arguments, `sql` may be a whole script. Returns the command tag."""
        async with self._exclusive():
            return await self._connection.execute(sql, *args, timeout=timeout)

    @asynccontextmanager
    async def transaction(self, *, longest_pause: float | None = None) -> AsyncIterator[None]:
        """Begin a transaction. The server ends the connection if the transaction pauses for `longest_pause` seconds.

        The isolation level is READ COMMITTED, whatever the role's default is: each statement has to decide by the
        current rows.
        """
        async with self._exclusive(), self._connection.transaction(isolation="read_committed"):
            outer, self._in_transaction = self._in_transaction, asyncio.current_task()
            try:
                if longest_pause is not None:
                    milliseconds = round(longest_pause * 1000)
                    await self._connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = {milliseconds}")
                yield
            finally:
                self._in_transaction = outer

    async def listen(self, channel: str, callback: Callable[[str], None]) -> None:
        """Call `callback` with the payload of every notification on `channel`, until the connection ends."""

        def on_notice(connection: object, pid: int, channel: str, payload: object) -> None:
            callback(str(payload))

        async with self._exclusive():
            await self._connection.add_listener(channel, on_notice)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call `callback` as soon as this process knows that the connection has ended, on either side."""
        self._connection.add_termination_listener(lambda _: callback())

    async def close(self, timeout: float = 2) -> None:
        """Close the session properly, or hang up after `timeout` seconds. A running statement is cancelled."""
        self._closing = True
        try:
            await self._connection.close(timeout=timeout)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError):
            await self.abort()

    def hang_up(self) -> None:
        """End the connection without a message to the server. The event loop, if it still runs, closes the socket."""
        self._connection.terminate()

    def sever(self) -> None:
        """Close the socket without the driver, whose event loop has ended or belongs to the parent process."""
        if (descriptor := self.descriptor) is not None:
            replace_with_devnull(descriptor)

    async def abort(self) -> None:
        """Hang up, and let the event loop close the socket."""
        self.hang_up()
        await asyncio.sleep(0)  # the event loop closes the socket, and may be about to end

    @property
    def _transport(self) -> Any:
        return self._connection._transport  # type: ignore[attr-defined] # there is no public access to it

    def _limit_read_size(self) -> None:
        """Read at most 64 KiB at once.

        asyncio allocates 256 KiB before each read. The C library gets this memory from the kernel and returns it each
        time, which took longer than the read itself. Longer messages arrive in several reads.
        """
        if getattr(self._transport, "max_size", 0) > _READ_SIZE:
            self._transport.max_size = _READ_SIZE

    def _on_log_message(self, connection: object, message: asyncpg.PostgresLogMessage) -> None:
        """Note a commit that the server reports as done although its wait for the standby was cut short.

        The message is identified by the server's function, because the message's text may be translated.
        """
        if getattr(message, "server_source_function", None) == "SyncRepWaitForLSN":
            self._unconfirmed = True

    def _exclusive(self) -> "_ExclusiveUse":
        return _ExclusiveUse(self)

    def _translated(self, error: BaseException) -> errors.StoreError | None:
        """Returns Interlock's error for an error of the driver or the connection, or None for any other error."""
        match error:
            case asyncpg.InsufficientPrivilegeError():
                return errors.PermissionMissing(
                    f"The database role lacks a privilege ({as_line(error)}): "
                    "let the schema's owner run `interlock schema apply`, "
                    "and for leases `interlock schema grant ROLE --for leases`."
                )
            case asyncpg.LockNotAvailableError():
                return errors.LockNotAvailable(f"A lock was not available in time ({as_line(error)}): try again.")
            case asyncpg.PostgresError() if isinstance(error, _ENDED) or error.severity_en in _FATAL_SEVERITIES:
                return self._ended(error)
            case asyncpg.QueryCanceledError() if self._closing:  # this process cancelled it
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
            case asyncpg.InternalClientError():  # the server's last message was read, the end of the stream was not
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
        """True if a standby refused the statement. The error codes alone do not tell, because they have other meanings.

        A server in recovery announces `in_hot_standby`, but a pooler may not pass that on.
        """
        if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
            return True
        in_recovery = getattr(self._connection.get_settings(), "in_hot_standby", None)
        is_standby = in_recovery == "on" or (in_recovery is None and "recovery" in str(error))
        return is_standby and error.sqlstate in _NOT_IN_RECOVERY


class _ExclusiveUse:
    """Exclusive use of the session by one task, in which the driver's errors become Interlock's.

    This is a class for speed: each statement enters it, and a generator would cost a third of the driver's own time.
    """

    __slots__ = ("_session", "_taken")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._taken = False

    async def __aenter__(self) -> None:
        if self._session._in_transaction is None or self._session._in_transaction is not asyncio.current_task():
            await self._session._lock.acquire()
            self._taken = True

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        unconfirmed = False
        if self._taken:
            unconfirmed, self._session._unconfirmed = self._session._unconfirmed, False
            self._session._lock.release()
        if error is not None:
            if ours := self._session._translated(error):
                raise ours from error
        elif unconfirmed:
            raise errors.DatabaseUnreachable(
                f"{self._session.shown_url} committed the transaction, but its standby did not confirm it: "
                "a failover may lose the transaction. Check the standby."
            )


_NOT_IN_RECOVERY = (
    asyncpg.ObjectNotInPrerequisiteStateError.sqlstate,
    asyncpg.FeatureNotSupportedError.sqlstate,  # for unlogged tables, for example
)

_FATAL_SEVERITIES = (
    "FATAL",
    "PANIC",
)  # the server ends the session: after timeouts, or for a dropped database

_ENDED = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleSessionTimeoutError,
)


def as_line(error: BaseException) -> str:
    """Returns the text of an error in one line, as a part of a sentence."""
    text = " ".join(str(error).split()).rstrip(".")
    return text or type(error).__name__
