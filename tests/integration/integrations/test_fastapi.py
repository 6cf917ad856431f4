"""FastAPI with leases: a lifespan beside the application's own, and grants as dependencies."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import BackgroundTasks, Depends, FastAPI
from starlette.responses import StreamingResponse

from interlock import AsyncGrant, AsyncInterlock, Interlock, errors
from interlock.integrations.fastapi import holding, interlock, with_interlock
from interlock.integrations.idempotency.asgi import IdempotencyMiddleware
from support.lease_engine import holder, sessions, take_away, until
from support.postgres import execute

ROOT = Path(__file__).parents[3]


@asynccontextmanager
async def served(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application with its lifespan, as a server runs it."""
    async with app.router.lifespan_context(app), client_of(app) as client:
        yield client


def client_of(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


@pytest.fixture
def locks(interlock_url: str) -> AsyncInterlock:
    return AsyncInterlock(interlock_url)


def shop(locks: AsyncInterlock, begun: asyncio.Event, go: asyncio.Event) -> FastAPI:
    app = FastAPI(lifespan=with_interlock(locks))

    @app.post("/reports/{report}")
    async def build(report: str, grant: Annotated[AsyncGrant, Depends(holding("report:{report}", ttl=4))]) -> Any:
        begun.set()
        await go.wait()
        return {"lease": grant.name, "token": grant.token}

    @app.post("/patient")
    async def patient(grant: Annotated[AsyncGrant, Depends(holding("report:7", timeout=20))]) -> str:
        return grant.name

    @app.post("/wrong")
    async def wrong(grant: Annotated[AsyncGrant, Depends(holding("report:{order}"))]) -> None: ...

    @app.get("/members")
    async def members(root: Annotated[AsyncInterlock, Depends(interlock)]) -> Any:
        return await root.members("web")

    return app


async def test_the_locks_are_open_while_the_application_lives(locks: AsyncInterlock, interlock_url: str) -> None:
    moments: list[str] = []

    @asynccontextmanager
    async def own(app: FastAPI) -> AsyncIterator[dict[str, int]]:
        assert app.state.interlock is locks
        async with locks.lease("start"):
            moments.append("begins with leases")
        yield {"answer": 42}
        async with locks.lease("stop"):
            moments.append("ends with leases")

    app = FastAPI(lifespan=with_interlock(locks, own))
    async with app.router.lifespan_context(app) as state:
        assert state == {"answer": 42}
        assert sessions(interlock_url)
    assert moments == ["begins with leases", "ends with leases"]
    await until(lambda: not sessions(interlock_url))


async def test_an_application_does_not_start_without_its_database() -> None:
    app = FastAPI(lifespan=with_interlock(AsyncInterlock("postgresql://user@127.0.0.1:1/none")))
    with pytest.raises(errors.DatabaseUnreachable):
        async with app.router.lifespan_context(app):
            pass


async def test_a_request_holds_its_lease_and_another_is_answered_with_409(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    begun, go = asyncio.Event(), asyncio.Event()
    async with served(shop(locks, begun, go)) as client:
        first = asyncio.create_task(client.post("/reports/7"))
        await begun.wait()
        assert holder(interlock_url, "report:7")
        second = await client.post("/reports/7")
        assert (second.status_code, second.headers["retry-after"]) == (409, "1")
        waiting = asyncio.create_task(client.post("/patient"))
        go.set()
        assert (await client.post("/reports/8")).json()["lease"] == "report:8"
        assert (await first).json()["lease"] == "report:7"
        assert (await waiting).json() == "report:7"
        await until(lambda: holder(interlock_url, "report:7") is None)
        assert (await client.get("/members")).json() == []


async def test_an_endpoint_whose_lease_is_lost_is_cancelled(locks: AsyncInterlock, interlock_url: str) -> None:
    begun, go = asyncio.Event(), asyncio.Event()
    async with served(shop(locks, begun, go)) as client:
        first = asyncio.create_task(client.post("/reports/7"))
        await begun.wait()
        take_away(interlock_url, "report:7")
        with pytest.raises(errors.LeaseLost):
            await first


async def test_configuration_errors_name_the_remedy(locks: AsyncInterlock) -> None:
    app = shop(locks, asyncio.Event(), asyncio.Event())
    async with client_of(app) as client:
        with pytest.raises(errors.ConfigurationError, match=r"lifespan=with_interlock\(locks\)"):
            await client.get("/members")
    async with served(app) as client:
        with pytest.raises(errors.ConfigurationError, match=r"not a parameter of the path \('order'\)"):
            await client.post("/wrong")
    with pytest.raises(errors.ConfigurationError, match="an AsyncInterlock"):
        with_interlock(Interlock())  # type: ignore[arg-type]


async def test_idempotency_keys_work_with_background_tasks_and_streams(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    done: list[str] = []
    app = FastAPI(lifespan=with_interlock(locks))
    app.add_middleware(IdempotencyMiddleware, locks=locks, scope="authorization")

    @app.post("/orders")
    async def order(tasks: BackgroundTasks) -> Any:
        tasks.add_task(done.append, "mail")
        return {"number": len(done) + 1}

    @app.post("/stream")
    async def stream() -> StreamingResponse:
        done.append("stream")
        return StreamingResponse(iter(["one ", "two"]))

    @app.post("/broken")
    async def broken() -> None:
        done.append("broken")
        raise ZeroDivisionError

    async with served(app) as client:
        key = {"Idempotency-Key": '"k1"'}
        for is_replayed in (None, "true"):
            answer = await client.post("/orders", json={"tea": 1}, headers=key)
            assert (answer.json(), answer.headers.get("idempotency-replayed")) == ({"number": 1}, is_replayed)
            assert (await client.post("/stream", headers=key)).text == "one two"
        assert (await client.post("/orders", json={"tea": 2}, headers=key)).status_code == 422
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await client.post("/broken", headers=key)
        assert sorted(done) == ["broken", "broken", "mail", "stream"]
    assert execute(interlock_url, "SELECT count(*) FROM interlock.record") == [(2,)]


def example(page: str) -> dict[str, Any]:
    """The names that the page's example for FastAPI defines."""
    blocks = (ROOT / "docs" / "how-to" / page).read_text().split("```python\n")[1:]
    names: dict[str, Any] = {}
    exec(next(block for block in blocks if "FastAPI(" in block).split("```")[0], names)  # noqa: S102
    return names


async def test_the_examples_of_the_docs_run(interlock_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_DATABASE_URL", interlock_url)
    async with served(example("integrations.md")["app"]) as client:
        assert (await client.post("/reports/7")).json()["token"] > 0
        assert (await client.get("/workers")).json() == []
    app = example("idempotency.md")["app"]
    orders: list[int] = []
    app.post("/orders")(lambda: orders.append(1))
    async with served(app) as client:
        key = {"Idempotency-Key": '"8e03978e-40d5-43dd-bc93-6894a57f9324"'}
        answers = [await client.post("/orders", headers=key) for _ in range(2)]
    assert [answer.headers.get("idempotency-replayed") for answer in answers] == [None, "true"]
    assert orders == [1]
