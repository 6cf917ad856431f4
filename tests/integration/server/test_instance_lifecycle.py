"""The life of instances through the API, with a replica that works."""

import asyncio
import base64
import re
from typing import Any

import psycopg
import pytest

from interlock.errors import BadSpec
from interlock.sealing import Opener
from support.api import Api
from support.paper_driver import SHARED
from support.postgres import dumped, execute
from support.waiting import eventually


async def password_of(api: Api, name: str, opener: Opener) -> Any:
    """The answer's lines as they arrive."""
    asked = {"public_key": base64.b64encode(opener.public_key).decode()}
    return await api.client.post(f"/api/v1/instances/{name}/credential", json=asked)


async def test_an_instance_is_created_changed_stopped_started_and_deleted(working: Api) -> None:
    await working.create("shop", dns_name="shop.example.com")
    shop = await working.settled("shop")
    assert (shop["state"], shop["health"], shop["error"]) == ("running", "healthy", None)
    where = shop["connection"]
    assert (where["user"], where["database"], where["sslmode"]) == ("shared", "shared", "verify-full")
    assert where["ca"].startswith("-----BEGIN CERTIFICATE-----")
    for verb, path, body, state in [
        ("PUT", "parameters", {"parameters": {"work_mem": "16MB"}}, "running"),
        ("POST", "reset-password", None, "running"),
        ("POST", "restart", None, "running"),
        ("POST", "stop", None, "stopped"),
        ("POST", "start", None, "running"),
    ]:
        assert (await working.ask(verb, f"/instances/shop/{path}", json=body))["working"]
        settled = await working.settled("shop")
        assert (settled["state"], settled["error"]) == (state, None)
    assert settled["parameters"] == {"work_mem": "16MB"}
    await working.ask("DELETE", "/instances/shop")
    assert (await working.settled(shop["id"]))["state"] == "deleted"
    events = await working.ask("GET", f"/instances/{shop['id']}/events", params={"limit": 200})
    kinds = [event["kind"] for event in events["items"]]
    assert (kinds[0], kinds[-1]) == ("vanish", "create requested")
    keys = {f"key:{key}" for (key,) in execute(working.url, "SELECT id FROM interlock.api_key")}
    actors = {event["kind"]: (event["actor"], event["orchestration"]) for event in events["items"]}
    assert shop["created_by"] in keys
    assert {kind for kind, (actor, _) in actors.items() if actor == shop["created_by"]} == {
        f"{verb} requested"
        for verb in ("create", "set_parameters", "reset_password", "restart", "stop", "start", "delete")
    }
    assert actors["stopping"][0] == "interlock"
    assert "-stop-" in actors["stop requested"][1]
    assert execute(working.url, "SELECT count(*) FROM paper") == [(0,)]


async def test_only_the_requesting_client_can_decrypt_the_password(working: Api) -> None:
    await working.create("shop")
    shop = await working.settled("shop")
    password = await working.control.context.driver("local").password(SHARED)
    opener = Opener()
    answer = await password_of(working, "shop", opener)
    assert answer.status_code == 200
    sealed = base64.b64decode(answer.json()["sealed"])
    assert opener.open(sealed, shop["id"]) == password
    assert password.encode() not in answer.content
    assert password.encode() not in sealed
    assert base64.b64encode(password.encode()) not in answer.content
    for other, id in ((Opener(), shop["id"]), (opener, "another")):  # noqa: A001
        with pytest.raises(BadSpec, match="not sealed for this key pair"):
            other.open(sealed, id)
    shown = [await working.ask("GET", path) for path in ("/instances", "/instances/shop", "/instances/shop/events")]
    assert password not in str(shown)
    assert password not in dumped(working.url, "--inserts")
    assert answer.json()["sealed"] not in dumped(working.url, "--inserts")


async def test_a_malformed_public_key_is_refused(working: Api) -> None:
    await working.create("shop")
    await working.settled("shop")
    for key in ("", "x", "AAAA", "A" * 43 + "=", "A" * 44):
        problem = await working.refused("POST", "/instances/shop/credential", 422, json={"public_key": key})
        assert problem["code"] == "bad_spec"


async def test_a_creation_that_is_cancelled_is_undone_and_its_names_are_free(working: Api) -> None:
    await working.create("shop", dns_name="shop.example.com")
    await working.settled("shop")
    # While this transaction is open, every driver call waits for the lock on its table.
    with psycopg.connect(working.url) as connection:
        connection.execute("LOCK TABLE paper")
        orders = await working.create("orders", dns_name="orders.example.com")
        assert (await working.ask("POST", "/instances/orders/cancel"))["working"]
        cancelled = "SELECT 1 FROM interlock.orchestration WHERE id = %s AND outcome = 'cancelled'"
        await asyncio.to_thread(eventually, lambda: execute(working.url, cancelled, orders["orchestration"]))
    settled = await working.settled(orders["id"])
    assert (settled["state"], settled["error"]["code"]) == ("failed", "cancelled")
    assert execute(working.url, "SELECT name FROM paper") == [("shop",)]
    again = await working.create("orders", dns_name="orders.example.com")
    assert (await working.settled(again["id"]))["state"] == "running"


async def test_a_request_is_passed_to_the_engine_again_after_the_database_refused_statements(
    working: Api, caplog: pytest.LogCaptureFixture
) -> None:
    """For example because its disk was full: a cancellation is then passed on only by the sweep."""
    execute(working.url, "ALTER FUNCTION interlock.held_v1(text) RENAME TO gone_v1")
    refused = re.compile(r"periodic\.begins_again lease=interlock:orchestrations ")
    await asyncio.to_thread(eventually, lambda: refused.search(caplog.text))
    execute(working.url, "ALTER FUNCTION interlock.gone_v1(text) RENAME TO held_v1")
    with psycopg.connect(working.url) as connection:
        connection.execute("LOCK TABLE paper")
        shop = await working.create("shop")
        await working.ask("POST", "/instances/shop/cancel")
        cancelled = "SELECT 1 FROM interlock.orchestration WHERE id = %s AND outcome = 'cancelled'"
        await asyncio.to_thread(eventually, lambda: execute(working.url, cancelled, shop["orchestration"]))


async def test_the_log_is_streamed_line_by_line(working: Api) -> None:
    await working.create("shop")
    await working.settled("shop")
    for query in ({}, {"lines": 5, "follow": True}):
        answer = await working.client.get("/api/v1/instances/shop/logs", params=query)
        assert (answer.status_code, answer.text) == (200, "There is nothing to tell.\n")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    await working.refused("GET", "/instances/shop/logs", 422, params={"lines": -1})


async def test_a_requested_orchestration_starts_without_the_sweep(working: Api) -> None:
    """The answer comes after the engine has received the orchestration, or has it already."""
    shop = await working.create("shop")
    told = (
        "SELECT 1 FROM interlock_engine.orchestrator_queue WHERE instance_id = %(id)s"
        " UNION SELECT 1 FROM interlock_engine.instances WHERE instance_id = %(id)s"
    )
    with psycopg.connect(working.url) as connection:
        assert connection.execute(told, {"id": shop["orchestration"]}).fetchall()
