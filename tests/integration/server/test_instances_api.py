"""The answers to requests for instances: what is recorded, and what is refused."""

from typing import Any

import pytest

from support.api import Api, count
from support.postgres import execute

WRITTEN = ("instance", "orchestration", "claim", "event")


def written(api: Api) -> list[int]:
    return [count(api.url, table) for table in WRITTEN]


async def test_a_creation_is_answered_with_the_record_and_its_location(api: Api) -> None:
    wanted = {"name": "Shop", "dns_name": "shop.example.com", "version": 17, "storage": "10Gi"}
    more = {"parameters": {"max_connections": 50, "fsync": True}, "tags": {"team": "shop"}}
    answer = await api.client.post("/api/v1/instances", json=wanted | more)
    assert answer.status_code == 202
    shop = answer.json()
    assert answer.headers["location"] == f"/api/v1/instances/{shop['id']}"
    assert (shop["name"], shop["dns_name"], shop["driver"]) == ("shop", "shop.example.com", "local")
    assert (shop["version"], shop["storage_bytes"]) == ("17", 10 * 2**30)
    assert (shop["parameters"], shop["tags"]) == ({"max_connections": "50", "fsync": "on"}, {"team": "shop"})
    assert (shop["state"], shop["health"], shop["working"]) == ("creating", "unknown", True)
    assert (shop["connection"], shop["error"], shop["deleted_at"]) == (None, None, None)
    assert await api.show("SHOP") == await api.show(shop["id"]) == shop


async def test_an_instance_is_found_by_its_name_in_any_spelling(api: Api) -> None:
    records = await api.create("Bücher")
    assert records["name"] == "xn--bcher-kva"
    assert await api.show("Bücher") == await api.show("BÜCHER") == await api.show("xn--Bcher-kva") == records


@pytest.mark.parametrize("again", [{"name": "shop"}, {"name": "other", "dns_name": "Shop.Example.com."}])
async def test_a_taken_name_is_refused_with_its_owner_and_nothing_is_created(api: Api, again: Any) -> None:
    shop = await api.create("shop", dns_name="shop.example.com")
    before = written(api)
    problem = await api.refused("POST", "/instances", 409, json=again)
    assert (problem["code"], problem["type"]) == ("name_taken", "urn:interlock:problem:name-taken")
    assert (problem["owner"], problem["name"]) == (shop["id"], again.get("dns_name", "shop").lower().rstrip("."))
    assert shop["id"] in problem["detail"]
    assert written(api) == before


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"name": "two.parts"}, "invalid_name"),
        ({"name": "postgres"}, "invalid_name"),
        ({"name": "shop\0"}, "invalid_request"),
        ({"name": "shop", "dns_name": "10.0.0.1"}, "invalid_name"),
        ({"name": "shop", "storage": "10 elephants"}, "bad_spec"),
        ({"name": "shop", "storage": 1}, "bad_spec"),
        ({"name": "shop", "version": "9.6"}, "bad_spec"),
        ({"name": "shop", "driver": "cloud"}, "bad_spec"),
        ({"name": "shop", "parameters": {"no such": 1}}, "bad_spec"),
        ({"name": "shop", "tags": {"": "x"}}, "bad_spec"),
        ({"name": "shop", "nmae": "shop"}, "invalid_request"),
        ({"name": ["shop"]}, "invalid_request"),
        ({}, "invalid_request"),
        ([], "invalid_request"),
    ],
    ids=str,
)
async def test_an_impossible_instance_is_refused_before_anything_is_written(api: Api, wanted: Any, code: str) -> None:
    before = written(api)
    problem = await api.refused("POST", "/instances", 422, json=wanted)
    assert problem["code"] == code
    assert code != "invalid_request" or problem["errors"]
    assert written(api) == before


async def test_a_request_that_is_too_large_is_not_read(api: Api) -> None:
    body = b'{"name": "' + b"x" * 2**20 + b'"}'
    await api.refused("POST", "/instances", 413, content=body, headers={"Content-Type": "application/json"})

    async def parts() -> Any:
        for _ in range(20):
            yield b"x" * 2**17
        raise AssertionError("more was read than is taken")

    await api.refused("POST", "/instances", 413, content=parts(), headers={"Content-Type": "application/json"})
    await api.refused("POST", "/instances", 413, content=body, headers={"Idempotency-Key": "1"})


async def test_a_busy_instance_is_refused_with_its_orchestration(api: Api) -> None:
    shop = await api.create("shop")
    verbs: list[tuple[str, str, Any]] = [
        ("POST", "stop", None),
        ("POST", "start", None),
        ("POST", "restart", None),
        ("POST", "reset-password", None),
        ("POST", "abandon", None),
        ("PUT", "parameters", {"parameters": {}}),
    ]
    for method, path, body in verbs:
        problem = await api.refused(method, f"/instances/shop/{path}", 409, json=body)
        assert (problem["code"], problem["orchestration"]) == ("instance_busy", shop["orchestration"])


async def test_a_change_with_a_stale_etag_is_refused(api: Api) -> None:
    shop = await api.create("shop")
    execute(api.url, "UPDATE interlock.instance SET state = 'running', working = false, revision = revision + 1")
    wanted = {"json": {"parameters": {"work_mem": "8MB"}}, "headers": {"If-Match": f'"{shop["revision"]}"'}}
    problem = await api.refused("PUT", "/instances/shop/parameters", 412, **wanted)
    assert (problem["code"], problem["revision"]) == ("record_changed", shop["revision"] + 1)
    seen = (await api.client.get("/api/v1/instances/shop")).headers["etag"]
    changed = await api.ask("PUT", "/instances/shop/parameters", **wanted | {"headers": {"If-Match": seen}})
    assert (changed["working"], changed["revision"]) == (True, shop["revision"] + 2)
    problem = await api.refused("POST", "/instances/shop/stop", 422, headers={"If-Match": "yesterday"})
    assert problem["code"] == "bad_spec"


async def test_a_change_that_the_state_does_not_allow_is_refused_with_the_state(api: Api) -> None:
    shop = await api.create("shop")
    for state in ("running", "stopping", "stopped"):
        execute(api.url, "UPDATE interlock.instance SET state = %s, working = false", state)
    problem = await api.refused("POST", f"/instances/{shop['id']}/stop", 409)
    assert (problem["code"], problem["state"], problem["event"]) == ("illegal_transition", "stopped", "stop")
    problem = await api.refused("POST", "/instances/shop/cancel", 409)
    assert (problem["code"], problem["event"]) == ("illegal_transition", "cancel")
    problem = await api.refused("POST", "/instances/shop/abandon", 409)
    assert (problem["code"], problem["event"]) == ("illegal_transition", "abandon")
    assert (await api.ask("POST", "/instances/shop/start"))["state"] == "starting"


@pytest.mark.parametrize("name", ["unknown", "x" * 300, "%00", "a%0Ab", "00000000-0000-0000-0000-000000000000"])
async def test_an_unknown_instance_is_not_found(api: Api, name: str) -> None:
    for method, path in [("GET", ""), ("DELETE", ""), ("POST", "/stop"), ("GET", "/events"), ("GET", "/logs")]:
        assert (await api.refused(method, f"/instances/{name}{path}", 404))["code"] == "instance_unknown"


async def test_a_deletion_replaces_the_orchestration_in_progress(api: Api) -> None:
    shop = await api.create("shop")
    deleting = await api.ask("DELETE", "/instances/shop")
    assert (deleting["state"], deleting["working"]) == ("deleting", True)
    assert deleting["orchestration"] != shop["orchestration"]
    assert await api.ask("DELETE", f"/instances/{shop['id']}") == deleting
    assert (await api.refused("POST", "/instances", 409, json={"name": "shop"}))["owner"] == shop["id"]


async def test_each_instance_of_a_bulk_request_has_its_own_result(api: Api) -> None:
    shop = await api.create("shop", dns_name="shop.example.com")
    wanted = [
        {"name": "one"},
        {"name": "shop"},
        {"name": "two", "dns_name": "shop.example.com"},
        {"name": "no.name"},
        {"name": "one"},
        {"name": "three"},
    ]
    items = (await api.ask("POST", "/instances/bulk-create", json={"instances": wanted}))["items"]
    assert [(one["name"], one["status"]) for one in items] == [
        ("one", 202),
        ("shop", 409),
        ("two", 409),
        ("no.name", 422),
        ("one", 409),
        ("three", 202),
    ]
    assert [one["problem"]["owner"] for one in items[1:3]] == [shop["id"]] * 2
    assert items[4]["problem"]["owner"] == items[0]["instance"]["id"]
    assert count(api.url, "instance") == 3
    gone = [items[0]["instance"]["id"], "three", "four"]
    items = (await api.ask("POST", "/instances/bulk-delete", json={"instances": gone}))["items"]
    assert [(one["name"], one["status"], "instance" in one) for one in items] == [
        (gone[0], 202, True),
        ("three", 202, True),
        ("four", 404, False),
    ]


@pytest.mark.parametrize("size", [0, 51])
async def test_a_bulk_request_has_one_to_fifty_instances(api: Api, size: int) -> None:
    named = [f"i{number}" for number in range(size)]
    await api.refused("POST", "/instances/bulk-create", 422, json={"instances": [{"name": one} for one in named]})
    await api.refused("POST", "/instances/bulk-delete", 422, json={"instances": named})
    assert count(api.url, "instance") == 0
