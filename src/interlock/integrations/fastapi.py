"""FastAPI and Starlette: an `AsyncInterlock` for the life of the application, and leases as dependencies.

::

    locks = AsyncInterlock()
    app = FastAPI(lifespan=with_interlock(locks, lifespan))     # `lifespan` is your own, and optional

    @app.post("/reports/{report}")
    async def build(grant: Annotated[AsyncGrant, Depends(holding("report:{report}", timeout=5))]): ...

    @app.get("/leader")
    async def leader(locks: Annotated[AsyncInterlock, Depends(interlock)]): ...
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.times import Duration, checked_timeout
from interlock.coordination.root import AsyncInterlock
from interlock.errors import ConfigurationError, LeaseNotAcquired

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def with_interlock(locks: AsyncInterlock, lifespan: Lifespan | None = None) -> Lifespan:
    """Returns a lifespan that opens `locks` before `lifespan` begins, and closes `locks` after `lifespan` has ended."""
    if not isinstance(locks, AsyncInterlock):
        raise ConfigurationError("An ASGI application runs on an event loop: pass an AsyncInterlock.")

    @asynccontextmanager
    async def both(app: Any) -> AsyncIterator[Any]:
        async with locks:
            app.state.interlock = locks
            if lifespan is None:
                yield
            else:
                async with lifespan(app) as state:
                    yield state

    return both


def interlock(connection: HTTPConnection) -> AsyncInterlock:
    """A dependency that returns the root object of `with_interlock`."""
    locks = getattr(connection.app.state, "interlock", None)
    if not isinstance(locks, AsyncInterlock):
        raise ConfigurationError(
            "This application has no Interlock: create the application with FastAPI(lifespan=with_interlock(locks))."
        )
    return locks


def holding(
    name: str, *, ttl: Duration = 30.0, timeout: Duration | None = 0.0, slots: int | None = None
) -> Callable[[HTTPConnection], AsyncIterator[AsyncGrant]]:
    """Returns a dependency that holds the lease while the request is served. `name` may have path parameters in braces.

    A request that does not get the lease within `timeout` is answered with 409. If the lease is lost, the endpoint is
    cancelled.
    """
    checked_timeout(timeout)

    async def hold(connection: HTTPConnection) -> AsyncIterator[AsyncGrant]:
        lease = interlock(connection).lease(_filled_in(name, connection), ttl=ttl, slots=slots)
        try:
            grant = await lease.acquire(timeout)
        except LeaseNotAcquired:
            raise HTTPException(
                409, "Another request holds the lease that this request needs: try again later.", {"Retry-After": "1"}
            ) from None
        async with grant:
            yield grant

    return hold


def _filled_in(name: str, connection: HTTPConnection) -> str:
    try:
        return name.format_map(connection.path_params)
    except (KeyError, ValueError, IndexError, AttributeError) as error:
        raise ConfigurationError(
            f"The lease name {name!r} has something in braces that is not a parameter of the path ({error}): "
            "use names of path parameters, and double a brace that is meant literally."
        ) from None
