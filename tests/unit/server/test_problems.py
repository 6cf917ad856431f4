"""Every error is answered as a problem, in one form."""

import inspect

import httpx
import pytest
from fastapi import FastAPI

from interlock import errors
from interlock.server.http_statuses import STATUSES


def add_failing(app: FastAPI, error: Exception) -> None:
    @app.get("/fail/{number}")
    async def fail(number: int) -> None:
        raise error


async def problem(client: httpx.AsyncClient, path: str, status: int, kind: str = "about:blank") -> dict[str, object]:
    answer = await client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    body: dict[str, object] = answer.json()
    assert (body["type"], body["status"]) == (kind, status)
    return body


@pytest.mark.parametrize("path", ["/nothing", "/static/nothing.css", "/docs", "/redoc", "/health/live/"])
async def test_an_unknown_path_is_a_problem(client: httpx.AsyncClient, path: str) -> None:
    body = await problem(client, path, 404)
    assert (body["title"], body["detail"]) == (
        "Not Found",
        f"There is nothing at {path}: see /openapi.json for the paths of the API.",
    )


async def test_a_wrong_method_is_answered_with_the_allowed_ones(client: httpx.AsyncClient) -> None:
    answer = await client.post("/health/live")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert answer.json() == {"type": "about:blank", "title": "Method Not Allowed", "status": 405}


async def test_a_malformed_request_is_answered_with_the_field_and_without_its_value(
    app: FastAPI, client: httpx.AsyncClient
) -> None:
    add_failing(app, ValueError())
    body = await problem(client, "/fail/secret", 422, "urn:interlock:problem:invalid-request")
    assert body["errors"] == [{"at": "path.number", "message": body["errors"][0]["message"]}]  # type: ignore[index]
    assert "secret" not in str(body)


OURS = [
    (errors.ConnectionLost("Do this."), 503, "connection-lost", {}),
    (errors.SchemaMissing("Do this."), 500, "schema-missing", {}),
    (errors.BadSpec("Do this."), 422, "bad-spec", {}),
    (errors.NotSupported("Do this."), 422, "not-supported", {}),
    (errors.InvalidName("Do this.", name="a.b"), 422, "invalid-name", {"name": "a.b"}),
    (errors.OnceConflict("Do this.", key="1"), 422, "once-conflict", {}),
    (errors.InstanceUnknown("Do this."), 404, "instance-unknown", {}),
    (errors.NameTaken("Do this.", name="a", owner="b"), 409, "name-taken", {"name": "a", "owner": "b"}),
    (errors.NameTaken("Do this.", name="a", owner=None), 409, "name-taken", {"name": "a", "owner": None}),
    (errors.InstanceBusy("Do this.", orchestration="a"), 409, "instance-busy", {"orchestration": "a"}),
    (
        errors.IllegalTransition("Do this.", state="a", event="b"),
        409,
        "illegal-transition",
        {"state": "a", "event": "b"},
    ),
    (errors.InstanceAbsent("Do this.", id="a"), 409, "instance-absent", {"id": "a"}),
    (errors.DriverUnreachable("Do this."), 502, "driver-unreachable", {}),
    (errors.DnsUnreachable("Do this.", name="a"), 502, "dns-unreachable", {"name": "a"}),
    (errors.DnsForeign("Do this.", name="a", owner="b"), 409, "dns-foreign", {"name": "a", "owner": "b"}),
    (errors.OutOfSpace("Do this."), 507, "out-of-space", {}),
    (errors.ClusterFailed("Do this.", log_tail="secret"), 500, "cluster-failed", {}),
]


@pytest.mark.parametrize(("error", "status", "kind", "facts"), OURS, ids=lambda value: type(value).__name__)
async def test_interlock_errors_are_answered_with_their_message(
    app: FastAPI,
    client: httpx.AsyncClient,
    error: errors.InterlockError,
    status: int,
    kind: str,
    facts: dict[str, object],
) -> None:
    add_failing(app, error)
    body = await problem(client, "/fail/1", status, f"urn:interlock:problem:{kind}")
    described = {"type", "title", "status", "detail", "code"}
    assert (body["detail"], body["code"]) == ("Do this.", kind.replace("-", "_"))
    assert {name: value for name, value in body.items() if name not in described} == facts


async def test_an_unreachable_database_is_answered_with_retry_after(app: FastAPI, client: httpx.AsyncClient) -> None:
    add_failing(app, errors.DatabaseUnreachable("Do this."))
    assert (await client.get("/fail/1")).headers["retry-after"] == "1"


def test_every_error_of_the_domain_has_a_status() -> None:
    families = (errors.RecordError, errors.BackupError, errors.DriverError, errors.DnsError)
    of_kinds = (errors.RecordUnknown, errors.RecordBusy)
    domain = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, families)}
    assert {kind for kind in domain if not issubclass(kind, of_kinds)} | {*of_kinds} <= set(STATUSES)
    assert {errors.InvalidName, errors.IllegalTransition, errors.OnceConflict, errors.StoreError} <= set(STATUSES)
    for kind, (_, facts) in STATUSES.items():
        told = inspect.signature(kind.__init__).parameters
        assert set(facts) <= set(told), kind


async def test_an_unexpected_error_is_answered_without_details(app: FastAPI, client: httpx.AsyncClient) -> None:
    add_failing(app, ZeroDivisionError("secret"))
    body = await problem(client, "/fail/1", 500)
    assert body == {"type": "about:blank", "title": "Internal Server Error", "status": 500}
