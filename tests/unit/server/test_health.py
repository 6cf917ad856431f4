"""The probes for an orchestrator: live, ready, startup."""

import httpx

from interlock.gate.progress import OpenRun
from interlock.schema import State
from interlock.schema.status import SchemaStatus
from interlock.server.readiness import Readiness
from interlock.server.startup import Startup

STATUS = SchemaStatus("interlock", State.CURRENT, frozenset(), ())
HOLDER = OpenRun(3, "web-1", "node-a", "2.0", "index", 10.0, 12.0, False, False)


async def test_a_replica_is_live_before_it_has_started(client: httpx.AsyncClient) -> None:
    answer = await client.get("/health/live")
    assert (answer.status_code, answer.json()) == (200, {"live": True})


async def test_a_replica_is_not_ready_before_it_has_started(client: httpx.AsyncClient) -> None:
    answer = await client.get("/health/ready")
    assert (answer.status_code, answer.json()["ready"]) == (503, False)


async def test_a_replica_is_ready_when_it_has_started_and_the_database_answers(
    client: httpx.AsyncClient, startup: Startup
) -> None:
    startup.finish("postgresql:///", STATUS)
    answer = await client.get("/health/ready")
    assert (answer.status_code, answer.json()) == (200, {"ready": True})


async def test_a_replica_is_not_ready_while_the_database_does_not_answer(
    client: httpx.AsyncClient, startup: Startup, readiness: Readiness
) -> None:
    startup.finish("postgresql:///", STATUS)
    readiness.answer = "It is silent."  # type: ignore[attr-defined]
    answer = await client.get("/health/ready")
    assert (answer.status_code, answer.json()) == (503, {"ready": False, "reason": "It is silent."})


async def test_the_startup_probe_shows_the_phase_and_its_beginning(client: httpx.AsyncClient, startup: Startup) -> None:
    answer = await client.get("/health/startup")
    since = startup.since.isoformat().replace("+00:00", "Z")
    assert (answer.status_code, answer.json()) == (503, {"phase": "database", "since": since})


async def test_the_startup_probe_shows_the_replica_that_migrates(client: httpx.AsyncClient, startup: Startup) -> None:
    startup.enter("waiting", HOLDER)
    answer = await client.get("/health/startup")
    assert (answer.status_code, answer.json()["phase"]) == (503, "waiting")
    assert answer.json()["holder"]["replica"] == "web-1"


async def test_the_startup_probe_succeeds_once_the_replica_is_ready(
    client: httpx.AsyncClient, startup: Startup
) -> None:
    startup.enter("waiting", HOLDER)
    startup.finish("postgresql:///", STATUS)
    answer = await client.get("/health/startup")
    assert (answer.status_code, answer.json()["phase"]) == (200, "ready")
    assert "holder" not in answer.json()


async def test_answers_about_the_current_state_are_not_cached(client: httpx.AsyncClient) -> None:
    assert (await client.get("/health/live")).headers["cache-control"] == "no-store"


async def test_the_api_describes_itself(client: httpx.AsyncClient) -> None:
    described = (await client.get("/openapi.json")).json()
    assert {"/health/live", "/health/ready", "/health/startup", "/api/v1/instances"} <= set(described["paths"])
    assert "503" in described["paths"]["/health/ready"]["get"]["responses"]


async def test_probes_answer_head_requests(client: httpx.AsyncClient) -> None:
    for path, status in (("/", 200), ("/health/live", 200), ("/health/ready", 503), ("/health/startup", 503)):
        answer = await client.head(path)
        assert (answer.status_code, answer.content) == (status, b""), path
