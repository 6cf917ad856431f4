"""One holding of a session lock: the heartbeat, the loss of it, and giving it back."""

import asyncio
from collections.abc import Callable
from typing import Self

from interlock import errors, process
from interlock.body import Body
from interlock.clock import boottime
from interlock.coordination.session_lock.queue import QueuedSession
from interlock.logs import events

log = events(__name__)

_PATIENCE = 1.0
"""With a server that does not answer, when there is nothing left to do but to hang up."""


class AsyncSessionGrant:
    """Beats from the moment it is made until `release`. ``async with grant`` cancels the body when the lock is lost,
    then raises `SessionLockLost`, and releases."""

    def __init__(self, name: str, session: QueuedSession, on_end: Callable[[], None]) -> None:
        self.name = name
        self.backend_pid = session.pid
        """The server process that holds the lock, as `pg_stat_activity` knows it."""
        self._session = session
        self._made_in = process.pid
        self._on_end: Callable[[], None] | None = on_end
        self._on_lost: list[Callable[[str], object]] = []
        self._why_lost: str | None = None
        self._told = asyncio.Event()
        self._released = False
        self._body: Body | None = None
        self._dropping: asyncio.Task[bool] | None = None
        self._keeper = asyncio.create_task(self._keep())
        self._keeper.add_done_callback(self._kept)

    def __repr__(self) -> str:
        state = "lost" if self.lost else "released" if self._released else "held"
        return f"<session lock {self.name!r}, server process {self.backend_pid}, {state}>"

    @property
    def lost(self) -> bool:
        """Asks the clock as well, so that the answer is right even after the process was stopped for a while.

        In a forked child it is lost: the lock is the parent's.
        """
        if self._why_lost is not None or self.is_inherited:
            return True
        return not self._released and boottime() >= self._session.trusted_until

    @property
    def is_inherited(self) -> bool:
        """Whether it was made by the process that forked this one."""
        return process.pid != self._made_in

    def check(self) -> None:
        """Raise `SessionLockLost` if it is not held any more."""
        if self.lost or self._released:
            raise self.error()

    async def wait_lost(self) -> str:
        """Until the lock is lost, which may be never; the answer says why."""
        await self._told.wait()
        assert self._why_lost is not None
        return self._why_lost

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Called with the reason, on the event loop's thread; at once, if it is lost already."""
        self._on_lost.append(callback)
        if self._why_lost is not None:
            callback(self._why_lost)

    async def release(self) -> bool:
        """Give it back and close its session. False: it was not held any more. Twice is once.

        If the server cannot be told, it finds out by itself, `ttl` after the last heartbeat at the latest.
        """
        if not self._released and not self.is_inherited:
            if self.lost:
                self._lose("this process was stopped for too long")
            self._released = True
            self._ended()
            try:
                if self._why_lost is None:
                    await self._give_back()
            finally:
                self._keeper.cancel()
                await self._session.close()
        return not self.lost

    def drop(self) -> None:
        """The same on the event loop's thread, for somebody who does not wait for it."""
        if not self._released:
            self._dropping = asyncio.create_task(self.release())

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

    async def _give_back(self) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._session.give_back()
        except errors.ConnectionLost as error:  # nobody knows since when
            self._lose(str(error))
        except (errors.StoreError, TimeoutError) as error:
            log.warning("session_lock.not_released", extra={**self._facts(), "why": str(error)})
        else:
            log.debug("session_lock.released", extra=self._facts())

    async def _keep(self) -> None:
        why = await self._beat()
        if not self._released:
            self._lose(why)
            await self._session.outlast()

    def _kept(self, keeper: "asyncio.Task[None]") -> None:
        """Also if it was cancelled, perhaps before its first turn, because the event loop ends under us: leave no
        session that could seem to live, and nobody who believes in it."""
        if not self._released:
            self._lose("nobody keeps it alive any more: its event loop ends")
            self._session.session.hang_up()

    async def _beat(self) -> str:
        try:
            return await self._session.run_heartbeats()
        except Exception as error:
            log.exception("session_lock.heartbeat_failed", extra=self._facts())
            return f"the heartbeat broke: {type(error).__name__}"

    def _lose(self, why: str) -> None:
        if self._why_lost is not None:
            return
        self._why_lost = why
        self._ended()
        log.warning("session_lock.lost", extra={**self._facts(), "why": why})
        self._told.set()
        for callback in self._on_lost:
            try:
                callback(why)
            except (Exception, asyncio.CancelledError):
                log.exception("session_lock.callback_failed", extra=self._facts())

    def _ended(self) -> None:
        """Once: by the second time its owner may hold the lock again, in another grant."""
        on_end, self._on_end = self._on_end, None
        if on_end:
            on_end()

    def error(self) -> errors.SessionLockLost:
        """That it is not held any more, and why."""
        why = self._why_lost or "this process was stopped for too long"
        if self.is_inherited:
            why = "it is held by the process that forked this one"
        elif self._released and self._why_lost is None:
            why = "it was released"
        return errors.SessionLockLost(
            f"The session lock {self.name!r} is not held any more ({why.rstrip('.')}): stop what it protects.",
            name=self.name,
        )

    def _facts(self) -> dict[str, object]:
        return {"lock": self.name, "backend_pid": self.backend_pid}
