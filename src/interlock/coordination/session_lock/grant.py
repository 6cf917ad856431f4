"""One grant of a session lock: its heartbeat, its loss and its release."""

import asyncio
from collections.abc import Callable
from typing import Self

from interlock import errors, process
from interlock.block_body import Body
from interlock.clock import boottime
from interlock.coordination.session_lock.queue import QueuedSession
from interlock.logs import events

log = events(__name__)

_RELEASE_TIMEOUT = 1.0
"""After so many seconds without an answer from the server, the release gives up and closes the connection."""


class AsyncSessionGrant:
    """A grant that sends heartbeats from its creation until its `release`. ``async with grant`` cancels the body when
    the lock is lost, then releases the lock and raises `SessionLockLost`."""

    def __init__(self, name: str, session: QueuedSession, on_end: Callable[[], None]) -> None:
        self.name = name
        self.backend_pid = session.pid
        """The pid of the server process that holds the lock, as in `pg_stat_activity`."""
        self._session = session
        self._process = process.pid
        self._on_end: Callable[[], None] | None = on_end
        self._on_lost: list[Callable[[str], object]] = []
        self._why_lost: str | None = None
        self._lost_event = asyncio.Event()
        self._released = False
        self._body: Body | None = None
        self._background_release: asyncio.Task[bool] | None = None
        self._heartbeats = asyncio.create_task(self._run_heartbeats())
        self._heartbeats.add_done_callback(self._heartbeats_ended)

    def __repr__(self) -> str:
        state = "lost" if self.lost else "released" if self._released else "held"
        return f"<session lock {self.name!r}, server process {self.backend_pid}, {state}>"

    @property
    def lost(self) -> bool:
        """True once another process may hold the lock. The property reads the clock, so it is right even after this
        process was suspended.

        In a forked child it is always True, because the lock belongs to the parent process.
        """
        if self._why_lost is not None or self.is_inherited:
            return True
        return not self._released and boottime() >= self._session.trusted_until

    @property
    def is_inherited(self) -> bool:
        """True if the process that forked this one made the grant."""
        return process.pid != self._process

    def check(self) -> None:
        """Raise `SessionLockLost` if the lock is not held any more."""
        if self.lost or self._released:
            raise self.error()

    async def wait_lost(self) -> str:
        """Wait until the lock is lost, and return the reason. If the lock is never lost, the wait never ends."""
        await self._lost_event.wait()
        assert self._why_lost is not None
        return self._why_lost

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Call the callback with the reason when the lock is lost, on the event loop's thread. If the lock is lost
        already, call it at once."""
        self._on_lost.append(callback)
        if self._why_lost is not None:
            callback(self._why_lost)

    async def release(self) -> bool:
        """Release the lock and close its session. Returns False if the lock was not held any more. It may be called
        twice.

        If this process cannot reach the server, the server releases the lock by itself, at most `ttl` after the last
        heartbeat.
        """
        if not self._released and not self.is_inherited:
            if self.lost:
                self._lose("this process was stopped for too long")
            self._released = True
            self._forget_holding()
            try:
                if self._why_lost is None:
                    await self._unlock()
            finally:
                self._heartbeats.cancel()
                await self._session.close()
        return not self.lost

    def drop(self) -> None:
        """Release the lock in the background. This method has to be called on the event loop's thread."""
        if not self._released:
            self._background_release = asyncio.create_task(self.release())

    async def __aenter__(self) -> Self:
        self._body = Body()
        self.on_lost(self._body.cancel)
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        body, self._body = self._body, None
        others_cancelled = await body.end(error) if body else False
        if await self.release():
            return
        if others_cancelled:
            raise asyncio.CancelledError from self.error()
        raise self.error() from error

    async def _unlock(self) -> None:
        try:
            async with asyncio.timeout(_RELEASE_TIMEOUT):
                await self._session.unlock()
        except errors.ConnectionLost as error:  # the time of the loss is unknown
            self._lose(str(error))
        except (errors.StoreError, TimeoutError) as error:
            log.warning("session_lock.not_released", extra={**self._facts(), "why": str(error)})
        else:
            log.debug("session_lock.released", extra=self._facts())

    async def _run_heartbeats(self) -> None:
        why = await self._send_heartbeats()
        if not self._released:
            self._lose(why)
            await self._session.wait_out_ttl()

    def _heartbeats_ended(self, heartbeats: "asyncio.Task[None]") -> None:
        """Close the connection if the heartbeats were cancelled, perhaps before the first, because the event loop ends.

        Otherwise the session would seem alive, and the grant would be trusted without a heartbeat.
        """
        if not self._released:
            self._lose("its heartbeats have ended, because its event loop ends")
            self._session.session.hang_up()

    async def _send_heartbeats(self) -> str:
        try:
            return await self._session.run_heartbeats()
        except Exception as error:
            log.exception("session_lock.heartbeat_failed", extra=self._facts())
            return f"the heartbeat failed: {type(error).__name__}"

    def _lose(self, why: str) -> None:
        if self._why_lost is not None:
            return
        self._why_lost = why
        self._forget_holding()
        log.warning("session_lock.lost", extra={**self._facts(), "why": why})
        self._lost_event.set()
        for callback in self._on_lost:
            try:
                callback(why)
            except (Exception, asyncio.CancelledError):
                log.exception("session_lock.callback_failed", extra=self._facts())

    def _forget_holding(self) -> None:
        """Call `on_end`, but only once: later the same owner may hold the lock in another grant."""
        on_end, self._on_end = self._on_end, None
        if on_end:
            on_end()

    def error(self) -> errors.SessionLockLost:
        """Return the error that says why the lock is not held any more."""
        why = self._why_lost or "this process was stopped for too long"
        if self.is_inherited:
            why = "the process that forked this one holds it"
        elif self._released and self._why_lost is None:
            why = "it was released"
        return errors.SessionLockLost(
            f"The session lock {self.name!r} is not held any more ({why.rstrip('.')}): stop the work that it protects.",
            name=self.name,
        )

    def _facts(self) -> dict[str, object]:
        return {"lock": self.name, "backend_pid": self.backend_pid}
