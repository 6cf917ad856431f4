"""Every path below /api needs a key that is known and not revoked."""

import re
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from interlock.keys.records import new_key
from interlock.server.application import make_application
from interlock.server.readiness import Readiness
from interlock.server.startup import Startup
from support.api import Api
from support.postgres import execute


def guarded(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Every method of every route below /api, with values for its parameters."""
    for route in iter_route_contexts(app.routes):
        if (route.path or "").startswith("/api"):
            for method in route.methods or ():
                yield method, re.sub(r"\{\w+\}", "something", route.path or "")


async def refused(client: httpx.AsyncClient, method: str, path: str) -> str:
    answer = await client.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json"), (method, path)
    assert answer.headers["www-authenticate"].startswith("Bearer")
    code: str = answer.json()["code"]
    return code


async def test_every_route_refuses_requests_without_a_valid_key(api: Api) -> None:
    routes = list(guarded(api.app))
    assert len(routes) > 10
    async with (
        api.stranger() as without_key,
        api.stranger(new_key()) as with_unknown_key,
        api.stranger("secret") as guesser,
    ):
        for method, path in routes:
            assert await refused(without_key, method, path) == "key_missing"
            assert await refused(with_unknown_key, method, path) == "key_wrong"
            assert await refused(guesser, method, path) == "key_wrong"
    assert execute(api.url, "SELECT count(*) FROM interlock.instance") == [(0,)]


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/v1", "/api/v1/nothing", "/api/v2/instances"])
async def test_an_unknown_path_is_refused_like_a_known_one(api: Api, path: str) -> None:
    async with api.stranger() as without_key:
        assert await refused(without_key, "GET", path) == "key_missing"
    assert (await api.client.get(path)).status_code == 404


async def test_a_revoked_key_is_refused_from_the_next_request_on(api: Api) -> None:
    async with api.control.pool.session() as session:
        key, record = await api.control.keys.create(session, "a colleague")
        async with api.stranger(key) as colleague:
            assert (await colleague.get("/api/v1/instances")).status_code == 200
            await api.control.keys.revoke(session, record.id)
            assert await refused(colleague, "GET", "/api/v1/instances") == "key_wrong"
    assert (await api.client.get("/api/v1/instances")).status_code == 200


@pytest.mark.parametrize("header", ["{key}", "Basic {key}", "Bearer", "Bearer ", "Bearer {key} {key}", "bearer{key}"])
async def test_the_authorization_header_has_to_follow_the_standard(api: Api, header: str) -> None:
    async with api.stranger() as without_key:
        without_key.headers["Authorization"] = header.format(key=api.key).strip()
        assert (await refused(without_key, "GET", "/api/v1/instances")).startswith("key_")
        without_key.headers["Authorization"] = f"bEARER {api.key}"
        assert (await without_key.get("/api/v1/instances")).status_code == 200


async def test_two_keys_in_one_request_are_refused(api: Api) -> None:
    async with api.stranger() as without_key:
        both = [("Authorization", f"Bearer {api.key}"), ("Authorization", f"Bearer {new_key()}")]
        answer = await without_key.get("/api/v1/instances", headers=both)
        assert answer.status_code == 401


async def test_the_use_of_a_key_is_recorded_once_a_minute(api: Api) -> None:
    used = "SELECT last_used_at FROM interlock.api_key"
    assert execute(api.url, used) == [(None,)]
    await api.client.get("/api/v1/instances")
    [(first,)] = execute(api.url, used)
    assert first
    await api.client.get("/api/v1/instances")
    assert execute(api.url, used) == [(first,)]
    execute(api.url, "UPDATE interlock.api_key SET last_used_at = last_used_at - interval '61 s'")
    await api.client.get("/api/v1/instances")
    [(later,)] = execute(api.url, used)
    assert later > first


async def test_only_the_hash_of_a_key_is_stored(api: Api) -> None:
    [row] = execute(api.url, "SELECT api_key::text FROM interlock.api_key")
    assert api.key not in row[0]
    assert api.key.removeprefix("ilk_") not in row[0]


@pytest.mark.parametrize("path", ["/", "/health/live", "/health/ready", "/health/startup", "/openapi.json"])
async def test_health_the_home_page_and_the_description_need_no_key(api: Api, path: str) -> None:
    async with api.stranger() as without_key:
        assert (await without_key.get(path)).status_code == 200


async def test_before_the_start_is_complete_every_request_is_refused_with_retry_after() -> None:
    startup = Startup()
    transport = httpx.ASGITransport(make_application(startup, Readiness(startup), "a database"))
    async with httpx.AsyncClient(transport=transport, base_url="http://interlock.test") as client:
        answer = await client.get("/api/v1/instances")
    assert (answer.status_code, answer.headers["retry-after"], answer.json()["code"]) == (503, "1", "starting")


async def test_a_stopping_replica_accepts_no_more_requests(api: Api) -> None:
    api.control.stopping.set()
    answer = await api.client.get("/api/v1/instances")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
