"""The web application without a server and without a database."""

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from interlock.server.application import make_application
from interlock.server.readiness import Readiness
from interlock.server.startup import Startup


class Answering(Readiness):
    """Readiness whose answer the test chooses; before the start is complete, the real answer."""

    answer: str | None = None

    async def _check(self) -> str | None:
        return self.answer


@pytest.fixture
def startup() -> Startup:
    return Startup()


@pytest.fixture
def readiness(startup: Startup) -> Answering:
    return Answering(startup)


@pytest.fixture
def app(startup: Startup, readiness: Answering) -> FastAPI:
    return make_application(startup, readiness, "postgresql://user@host/<name>")


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://interlock.test") as client:
        yield client
