"""Backups, storage and facts through the API, with a replica that works."""

import asyncio
from typing import Any

import pytest

from support.api import Api
from support.postgres import execute
from support.waiting import eventually

pytestmark = pytest.mark.timeout(200)


async def settled_backup(api: Api, id: str) -> Any:  # noqa: A002
    idle = "SELECT 1 FROM interlock.instance_backup WHERE id = %s AND NOT working"
    await asyncio.to_thread(eventually, lambda: execute(api.url, idle, id))
    return await api.ask("GET", f"/backups/{id}")


async def test_a_backup_is_made_listed_verified_restored_and_deleted(working: Api) -> None:
    await working.create("shop")
    shop = await working.settled("shop")
    asked = await working.client.post("/api/v1/instances/shop/backups", headers={"Idempotency-Key": "first"})
    assert (asked.status_code, asked.json()["state"]) == (202, "making")
    assert asked.headers["location"] == f"/api/v1/backups/{asked.json()['id']}"
    again = await working.client.post("/api/v1/instances/shop/backups", headers={"Idempotency-Key": "first"})
    assert again.json()["id"] == asked.json()["id"]
    made = await settled_backup(working, asked.json()["id"])
    assert (made["state"], made["error"], made["instance"], made["format"]) == ("made", None, shop["id"], "file")
    assert (working.control.settings.backup_directory / made["path"]).stat().st_size == made["size_bytes"]

    other = await working.ask("POST", "/instances/shop/backups", json={"format": "directory"})
    assert (await settled_backup(working, other["id"]))["state"] == "made"
    page = await working.ask("GET", "/instances/shop/backups", params={"limit": 1})
    rest = await working.ask("GET", "/backups", params={"instance": "shop", "after": page["next"]})
    assert [one["id"] for one in page["items"] + rest["items"]] == [other["id"], made["id"]]
    assert rest["next"] is None

    await working.ask("POST", f"/backups/{made['id'][:8]}/verify")
    assert (await settled_backup(working, made["id"]))["verified_at"] is not None

    restored = await working.ask(
        "POST", f"/backups/{made['id']}/restore", json={"name": "copy", "tags": {"of": "shop"}}
    )
    assert (restored["name"], restored["state"], restored["tags"]) == ("copy", "creating", {"of": "shop"})
    copy = await working.settled(restored["id"])
    assert (copy["state"], copy["error"]) == ("running", None)
    into, key = {"into": "shop"}, {"Idempotency-Key": "restored"}
    assert (await working.ask("POST", f"/backups/{made['id']}/restore", json=into, headers=key))["working"]
    assert (await working.settled("shop"))["error"] is None
    execute(working.url, "DELETE FROM interlock.record")  # as if the replica died before it recorded its answer
    again = await working.ask("POST", f"/backups/{made['id']}/restore", json=into, headers=key)
    assert (again["id"], again["working"]) == (shop["id"], False)
    restores = "SELECT count(*) FROM interlock.orchestration WHERE name = 'instances.restore'"
    assert execute(working.url, restores) == [(1,)]

    assert (await working.ask("DELETE", f"/backups/{made['id']}"))["state"] == "deleting"
    assert (await settled_backup(working, made["id"]))["state"] == "deleted"
    assert [one["id"] for one in (await working.ask("GET", "/backups"))["items"]] == [other["id"]]


@pytest.mark.exhaustive
async def test_an_instance_that_does_not_answer_is_not_reported_as_503(working: Api) -> None:
    """503 means that Interlock's own database does not answer, and clients repeat the request for a while."""
    await working.create("shop")
    await working.settled("shop")
    execute(working.url, "UPDATE interlock.instance SET port = 1")
    problem = await working.refused("GET", "/instances/shop/facts", 502)
    assert (problem["code"], "The instance shop does not answer" in problem["detail"]) == ("driver_unreachable", True)


async def test_facts_are_shown_and_storage_grows(working: Api) -> None:
    await working.create("shop", storage="2Gi")
    await working.settled("shop")
    facts = await working.ask("GET", "/instances/shop/facts")
    assert facts["size_bytes"] > 2**20
    assert 0 <= facts["connections"] < facts["max_connections"]
    await working.ask("PUT", "/instances/shop/storage", json={"storage": "3Gi"})
    assert (await working.settled("shop"))["storage_bytes"] == 3 * 2**30
    problem = await working.refused("PUT", "/instances/shop/storage", 422, json={"storage": "1Gi"})
    assert (problem["code"], "only grow" in problem["detail"]) == ("bad_spec", True)
    await working.ask("POST", "/instances/shop/stop")
    await working.settled("shop")
    assert (await working.refused("GET", "/instances/shop/facts", 409))["code"] == "illegal_transition"
    assert (await working.refused("POST", "/instances/shop/backups", 409))["code"] == "illegal_transition"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/instances/unknown/backups", None, 404, "instance_unknown"),
        ("POST", "/instances/unknown/backups", {"format": "tar"}, 422, "invalid_request"),
        ("GET", "/instances/unknown/backups", None, 404, "instance_unknown"),
        ("GET", "/backups/nothing", None, 404, "backup_unknown"),
        ("GET", "/backups/%00", None, 404, "backup_unknown"),
        ("DELETE", "/backups/nothing", None, 404, "backup_unknown"),
        ("GET", "/backups?after=rubbish", None, 422, "bad_spec"),
        ("POST", "/backups/nothing/restore", {}, 422, "bad_spec"),
        ("POST", "/backups/nothing/restore", {"name": "a", "into": "b"}, 422, "bad_spec"),
        ("POST", "/backups/nothing/restore", {"into": "b", "version": 17}, 422, "bad_spec"),
        ("POST", "/backups/nothing/restore", {"name": "a", "driver": "vmware"}, 422, "bad_spec"),
        ("POST", "/backups/nothing/restore", {"name": "a"}, 404, "backup_unknown"),
        ("GET", "/instances/unknown/facts", None, 404, "instance_unknown"),
    ],
)
async def test_an_impossible_request_is_refused(
    api: Api, method: str, path: str, body: Any, status: int, code: str
) -> None:
    assert (await api.refused(method, path, status, json=body))["code"] == code
