"""What an orchestrator is told."""

import httpx

from interlock.gate.progress import OpenRun
from interlock.schema import State
from interlock.schema.status import SchemaStatus
from interlock.server.readiness import Readiness
from interlock.server.startup import Startup

STATUS = SchemaStatus("interlock", State.CURRENT, frozenset(), ())
HOLDER = OpenRun(3, "web-1", "node-a", "2.0", "index", 10.0, 12.0, False, False)


async def test_it_lives_before_it_is_started(client: httpx.AsyncClient) -> None:
    answer = await client.get("/health/live")
    assert (answer.status_code, answer.json()) == (200, {"live": True})


async def test_it_is_not_ready_before_it_is_started(client: httpx.AsyncClient) -> None:
    answer = await client.get("/health/ready")
    assert (answer.status_code, answer.json()["ready"]) == (503, False)


async def test_it_is_ready_when_started_and_the_database_answers(client: httpx.AsyncClient, startup: Startup) -> None:
    startup.finish("postgresql:///", STATUS)
    answer = await client.get("/health/ready")
    assert (answer.status_code, answer.json()) == (200, {"ready": True})


async def test_it_is_not_ready_while_the_database_is_silent(
    client: httpx.AsyncClient, startup: Startup, readiness: Readiness
) -> None:
    startup.finish("postgresql:///", STATUS)
    readiness.answer = "It is silent."  # type: ignore[attr-defined]
    answer = await client.get("/health/ready")
    assert (answer.status_code, answer.json()) == (503, {"ready": False, "reason": "It is silent."})


async def test_the_startup_tells_its_phase_and_since_when(client: httpx.AsyncClient, startup: Startup) -> None:
    answer = await client.get("/health/startup")
    since = startup.since.isoformat().replace("+00:00", "Z")
    assert (answer.status_code, answer.json()) == (503, {"phase": "database", "since": since})


async def test_the_startup_tells_who_it_waits_for(client: httpx.AsyncClient, startup: Startup) -> None:
    startup.enter("waiting", HOLDER)
    answer = await client.get("/health/startup")
    assert (answer.status_code, answer.json()["phase"]) == (503, "waiting")
    assert answer.json()["holder"]["replica"] == "web-1"


async def test_the_startup_is_done_when_ready_and_holds_nobody_up(client: httpx.AsyncClient, startup: Startup) -> None:
    startup.enter("waiting", HOLDER)
    startup.finish("postgresql:///", STATUS)
    answer = await client.get("/health/startup")
    assert (answer.status_code, answer.json()["phase"]) == (200, "ready")
    assert "holder" not in answer.json()


async def test_answers_about_this_moment_are_not_kept(client: httpx.AsyncClient) -> None:
    assert (await client.get("/health/live")).headers["cache-control"] == "no-store"


async def test_the_api_describes_itself(client: httpx.AsyncClient) -> None:
    described = (await client.get("/openapi.json")).json()
    assert {"/health/live", "/health/ready", "/health/startup", "/api/v1/instances"} <= set(described["paths"])
    assert "503" in described["paths"]["/health/ready"]["get"]["responses"]


async def test_balancers_may_ask_for_the_head_alone(client: httpx.AsyncClient) -> None:
    for path, status in (("/", 200), ("/health/live", 200), ("/health/ready", 503), ("/health/startup", 503)):
        answer = await client.head(path)
        assert (answer.status_code, answer.content) == (status, b""), path
