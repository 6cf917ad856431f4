"""The process of `interlock up`: listen, answer requests, start in the background, and close everything at the end."""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager, suppress

import uvicorn

from interlock.config import Settings
from interlock.errors import InterlockError
from interlock.logs import events
from interlock.server.application import make_application
from interlock.server.control import open_control
from interlock.server.database import ControlDatabase, database_for
from interlock.server.http_protocol import HttpProtocol, most_connections
from interlock.server.listener import listen, page_url
from interlock.server.operator_messages import env_command, ready_message, still_running_message
from interlock.server.readiness import Readiness
from interlock.server.signals import StopSignals
from interlock.server.startup import Startup, start

log = events(__name__)

_GRACE_PERIOD = 5  # seconds for requests that are being answered at the stop
_LIST_TIMEOUT = 2.0  # seconds to read the names of the instances that go on running
_BACKLOG = 100  # connections that wait to be accepted; the event loop accepts as many in one turn


def serve(settings: Settings, show: Callable[[str], None]) -> None:
    """Run until a signal asks to stop. `show` receives the message for the operator once the replica is ready.

    Raises the InterlockError that prevented the start, after everything that was started has been stopped.
    """
    _redirect_library_logs()
    with StopSignals() as signals, _listen(settings) as listener:
        database = database_for(settings)
        try:
            # `asyncio.run` ends after the threads of `bring_up`, so nothing can start the database after its release.
            asyncio.run(_Service(settings, database, listener, show).run(signals))
        finally:
            database.release()
    log.info("server.stopped")


def _listen(settings: Settings) -> socket.socket:
    return listen(settings.host, settings.port, settings.data_dir.absolute())


class _Service:
    """The control plane, for one run of the event loop."""

    def __init__(
        self, settings: Settings, database: ControlDatabase, listener: socket.socket, show: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._database = database
        self._listener = listener
        self._show = show
        self._startup = Startup()
        self._readiness = Readiness(self._startup)
        self._server = _Server(make_application(self._startup, self._readiness, database.shown, env_command(settings)))
        self._opened = AsyncExitStack()
        self._starting: asyncio.Task[None] | None = None
        self._stop_requested = False

    async def run(self, signals: StopSignals) -> None:
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
                    await self._close()

    def _begin(self) -> None:
        log.info("server.listening", extra={"url": page_url(self._listener)})
        if not self._stop_requested:
            self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        address = page_url(self._listener)
        try:
            url, status = await start(self._startup, self._database, self._settings)
            self._startup.enter("joining")
            control = await self._opened.enter_async_context(open_control(self._settings, url, address))
            self._startup.finish(url, status, control)
        except BaseException:
            self._server.should_exit = True
            raise
        with suppress(OSError):  # a closed standard output is no reason to stop
            self._show(ready_message(self._settings, self._database, address))

    def _stop(self) -> None:
        if self._stop_requested:
            self._server.force_exit = True  # a second request to stop does not wait for open HTTP requests
            return
        log.info("server.stopping")
        self._stop_requested = self._server.should_exit = True
        if self._starting:
            self._starting.cancel()
        if self._startup.control:
            self._startup.control.stopping.set()

    async def _close(self) -> None:
        """Close all components. A requested stop succeeds even if the database is gone and they cannot deregister."""
        instances = await self._running_instances()
        try:
            await self._opened.aclose()
        except InterlockError as error:
            if not self._stop_requested:
                raise
            log.warning("server.put_away", extra={"reason": str(error)})
        if instances:
            with suppress(OSError):
                self._show(still_running_message(instances))

    async def _running_instances(self) -> list[str]:
        """Returns the names for the message at the stop, or no names if the database does not answer in time."""
        if self._startup.control and self._stop_requested:
            with suppress(InterlockError, TimeoutError):
                async with asyncio.timeout(_LIST_TIMEOUT):
                    return await self._startup.control.running_instances()
        return []

    async def _end_start(self) -> None:
        """End the start. Raises the error of a failed start, unless a stop was requested."""
        if self._starting is None:
            return
        self._starting.cancel()
        try:
            await self._starting
        except asyncio.CancelledError:
            pass
        except InterlockError as error:
            if not self._stop_requested:
                raise
            log.info("startup.abandoned", extra={"reason": str(error)})


class _Server(uvicorn.Server):
    """uvicorn without its own signal handling and logging."""

    def __init__(self, app: Callable[..., object]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=HttpProtocol,
                backlog=min(_BACKLOG, most_connections() // 4),
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_GRACE_PERIOD,
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


def _redirect_library_logs() -> None:
    """Warnings and errors of uvicorn and asyncio go to Interlock's own log."""
    handlers = logging.getLogger("interlock").handlers
    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers[:] = handlers
        logger.setLevel(logging.WARNING)
        logger.propagate = False
