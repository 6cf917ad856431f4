"""The life of `interlock up`: listen, answer, start in the background, and put everything away again."""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress

import uvicorn

from interlock.config import Settings
from interlock.errors import InterlockError
from interlock.logs import events
from interlock.server.announcement import announcement
from interlock.server.application import make_application
from interlock.server.control import controlling
from interlock.server.database import ControlDatabase, database_for
from interlock.server.line import HttpProtocol, most_connections
from interlock.server.listener import listen, page_url
from interlock.server.readiness import Readiness
from interlock.server.signals import StopSignals
from interlock.server.startup import Startup, start

log = events(__name__)

_GRACE = 5  # seconds for requests that are being answered
_AT_ONCE = 100  # connections that are taken before anything else is looked at, and that may wait for that


def serve(settings: Settings, tell: Callable[[str], None]) -> None:
    """Run until a signal asks to stop. `tell` gets what a person should read once everything is up.

    Raises the InterlockError that kept it from starting; by then, whatever it had started is stopped again.
    """
    _join_logs()
    with StopSignals() as signals, listen(settings.host, settings.port) as listener:
        database = database_for(settings)
        try:
            # Its end waits for the threads of `bring_up`: then there is nothing left that could still start something.
            asyncio.run(_Life(settings, database, listener, tell).live(signals))
        finally:
            database.release()
    log.info("server.stopped")


class _Life:
    """One run of the event loop."""

    def __init__(
        self, settings: Settings, database: ControlDatabase, listener: socket.socket, tell: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._database = database
        self._listener = listener
        self._tell = tell
        self._startup = Startup()
        self._readiness = Readiness(self._startup)
        self._server = _Server(make_application(self._startup, self._readiness, database.shown))
        self._running = AsyncExitStack()
        self._starting: asyncio.Task[None] | None = None
        self._asked_to_stop = False

    async def live(self, signals: StopSignals) -> None:
        loop = asyncio.get_running_loop()

        def stop_soon() -> None:  # a signal handler may interrupt the loop anywhere
            loop.call_soon_threadsafe(self._stop)

        with signals.calling(stop_soon):
            try:
                await self._server.serve_on(self._listener, when_up=self._begin)
            finally:
                await self._readiness.close()
                try:
                    await self._end_start()
                finally:
                    await self._put_away()

    def _begin(self) -> None:
        log.info("server.listening", extra={"url": page_url(self._listener)})
        if not self._asked_to_stop:
            self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        address = page_url(self._listener)
        try:
            url, status = await start(self._startup, self._database, self._settings)
            self._startup.enter("joining")
            control = await self._running.enter_async_context(controlling(self._settings, url, address))
            self._startup.finish(url, status, control)
        except BaseException:
            self._server.should_exit = True
            raise
        with suppress(OSError):  # a closed standard output is no reason to stop
            self._tell(announcement(self._settings, self._database, address))

    def _stop(self) -> None:
        if self._asked_to_stop:
            self._server.force_exit = True  # whoever asks twice does not want to wait for requests
            return
        log.info("server.stopping")
        self._asked_to_stop = self._server.should_exit = True
        if self._starting:
            self._starting.cancel()
        if self._startup.control:
            self._startup.control.stopping.set()

    async def _put_away(self) -> None:
        """Whoever asked for the stop has it, also where the database is gone and cannot be told goodbye."""
        try:
            await self._running.aclose()
        except InterlockError as error:
            if not self._asked_to_stop:
                raise
            log.warning("server.put_away", extra={"reason": str(error)})

    async def _end_start(self) -> None:
        """Raise what the start failed with, unless we stopped it ourselves."""
        if self._starting is None:
            return
        self._starting.cancel()
        try:
            await self._starting
        except asyncio.CancelledError:
            pass
        except InterlockError as error:
            if not self._asked_to_stop:
                raise
            log.info("startup.abandoned", extra={"reason": str(error)})


class _Server(uvicorn.Server):
    """uvicorn without its own signal handling and logging."""

    def __init__(self, app: Callable[..., object]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=HttpProtocol,
                backlog=min(_AT_ONCE, most_connections() // 4),
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_GRACE,
            )
        )

    async def serve_on(self, listener: socket.socket, when_up: Callable[[], None]) -> None:
        self._when_up = when_up
        await self.serve(sockets=[listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._when_up()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _join_logs() -> None:
    """What these libraries have to say goes where our own log goes; from uvicorn, only what went wrong."""
    ours = logging.getLogger("interlock")
    for name in ("uvicorn", "asyncio"):
        theirs = logging.getLogger(name)
        theirs.handlers[:] = ours.handlers
        theirs.setLevel(logging.WARNING)
        theirs.propagate = False
