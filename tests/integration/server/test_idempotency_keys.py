"""Requests under an Idempotency-Key."""

import asyncio
import base64
from typing import Any

import pytest

from interlock.errors import ConnectionLost
from interlock.instances.records import InstanceRecord
from interlock.sealing import Opener
from support.api import Api, count
from support.postgres import execute


def under(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


async def test_a_repeated_request_creates_one_instance_and_gets_the_same_answer(api: Api) -> None:
    wanted = {"name": "shop", "dns_name": "shop.example.com"}
    first = await api.client.post("/api/v1/instances", json=wanted, headers=under("1"))
    again = await api.client.post("/api/v1/instances", json=wanted, headers=under("1"))
    assert (first.status_code, again.status_code) == (202, 202)
    assert (again.content, again.headers["location"]) == (first.content, first.headers["location"])
    assert ("idempotency-replayed" in first.headers, again.headers["idempotency-replayed"]) == (False, "true")
    assert count(api.url, "instance") == 1


async def test_concurrent_requests_under_one_key_create_one_instance(api: Api) -> None:
    asked = [api.client.post("/api/v1/instances", json={"name": "shop"}, headers=under("1")) for _ in range(5)]
    answers = await asyncio.gather(*asked)
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert count(api.url, "instance") == 1


async def test_another_request_under_the_same_key_is_refused(api: Api) -> None:
    await api.ask("POST", "/instances", json={"name": "shop"}, headers=under("1"))
    problem = await api.refused("POST", "/instances", 422, json={"name": "orders"}, headers=under("1"))
    assert problem["type"] == "urn:interlock:problem:idempotency-key-reused"
    assert count(api.url, "instance") == 1


async def test_an_idempotency_key_belongs_to_its_api_key(api: Api) -> None:
    async with api.control.pool.session() as session:
        key, _ = await api.control.keys.create(session, "a colleague")
    shop = await api.ask("POST", "/instances", json={"name": "shop"}, headers=under("1"))
    async with api.stranger(key) as colleague:
        answer = await colleague.post("/api/v1/instances", json={"name": "orders"}, headers=under("1"))
    assert (answer.status_code, answer.json()["id"] != shop["id"]) == (202, True)


async def test_the_record_is_found_again_if_the_replica_died_before_it_recorded_the_answer(api: Api) -> None:
    shop = await api.ask("POST", "/instances", json={"name": "shop"}, headers=under("1"))
    several = {"instances": [{"name": "one"}, {"name": "two"}]}
    made = await api.ask("POST", "/instances/bulk-create", json=several, headers=under("2"))
    execute(api.url, "DELETE FROM interlock.record")
    assert await api.ask("POST", "/instances", json={"name": "shop"}, headers=under("1")) == shop
    assert await api.ask("POST", "/instances/bulk-create", json=several, headers=under("2")) == made
    assert count(api.url, "instance") == 3
    execute(api.url, "DELETE FROM interlock.record")
    taken = await api.refused("POST", "/instances", 409, json={"name": "shop"}, headers=under("3"))
    assert taken["owner"] == shop["id"]


async def test_a_refused_request_can_be_repeated_under_the_same_key(api: Api) -> None:
    shop = await api.create("shop")
    await api.refused("POST", "/instances", 409, json={"name": "shop"}, headers=under("1"))
    execute(api.url, "UPDATE interlock.instance SET names_freed_at = now(), state = 'failed'")
    execute(api.url, "UPDATE interlock.claim SET released_at = now() WHERE owner = %s", shop["id"])
    assert (await api.ask("POST", "/instances", json={"name": "shop"}, headers=under("1")))["id"] != shop["id"]


async def test_the_refused_instances_of_a_bulk_request_can_be_repeated_under_the_same_key(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    several = {"instances": [{"name": "one"}, {"name": "two"}, {"name": "three"}]}
    create = api.control.instances.create

    async def away(connection: Any, name: str, **wishes: Any) -> InstanceRecord:
        if name == "two":
            raise ConnectionLost("The connection ended.")
        return await create(connection, name, **wishes)

    with monkeypatch.context() as patched:
        patched.setattr(api.control.instances, "create", away)
        first = await api.client.post("/api/v1/instances/bulk-create", json=several, headers=under("1"))
    assert (first.status_code, [one["status"] for one in first.json()["items"]]) == (207, [202, 503, 202])
    again = await api.client.post("/api/v1/instances/bulk-create", json=several, headers=under("1"))
    assert (again.status_code, [one["status"] for one in again.json()["items"]]) == (200, [202, 202, 202])
    assert again.json()["items"][::2] == first.json()["items"][::2]
    whole = await api.client.post("/api/v1/instances/bulk-create", json=several, headers=under("1"))
    assert (whole.content, whole.headers["idempotency-replayed"]) == (again.content, "true")
    assert count(api.url, "instance") == 3


async def test_the_second_instance_of_the_same_name_in_one_request_is_refused(api: Api) -> None:
    twice = {"instances": [{"name": "shop", "storage": "1Gi"}, {"name": "shop", "storage": "2Gi"}]}
    for _ in range(2):
        [one, other] = (await api.ask("POST", "/instances/bulk-create", json=twice, headers=under("1")))["items"]
        assert (one["status"], one["instance"]["storage_bytes"]) == (202, 2**30)
        assert (other["status"], other["problem"]["owner"]) == (409, one["instance"]["id"])
    assert count(api.url, "instance") == 1


async def test_deletions_and_changes_can_be_repeated(api: Api) -> None:
    for name in ("shop", "credential"):  # the path of a request for a password ends with this too
        await api.create(name)
        first = await api.client.delete(f"/api/v1/instances/{name}", headers=under("1"))
        again = await api.client.delete(f"/api/v1/instances/{name}", headers=under("1"))
        assert (first.status_code, again.content) == (202, first.content)
        assert again.headers["idempotency-replayed"] == "true"


async def test_a_credential_is_never_recorded(working: Api) -> None:
    await working.create("shop")
    shop = await working.settled("shop")
    before = count(working.url, "record")
    answers = []
    for _ in range(2):
        opener = Opener()
        asked = {"public_key": base64.b64encode(opener.public_key).decode()}
        sealed = (await working.ask("POST", "/instances/shop/credential", json=asked, headers=under("1")))["sealed"]
        answers.append(opener.open(base64.b64decode(sealed), shop["id"]))
    assert answers[0] == answers[1]
    assert count(working.url, "record") == before
