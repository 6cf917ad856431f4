"""Drift through the API: list it, check for it, repair one finding."""

import asyncio

import pytest

from support.api import Api
from support.postgres import execute
from support.waiting import eventually

FINISHED = "SELECT 1 FROM interlock.orchestration WHERE id = %s AND finished_at IS NOT NULL"


@pytest.mark.timeout(200)
async def test_drift_is_found_listed_and_repaired(working: Api) -> None:
    made = await working.create("shop")
    assert (await working.settled("shop"))["state"] == "running"
    assert await working.ask("GET", "/drift") == {"items": [], "looks": []}
    execute(working.url, "UPDATE paper SET state = 'stopped'")
    execute(working.url, "INSERT INTO paper (id, name, state) VALUES ('unheard-of', 'stray', 'running')")

    found = await working.ask("POST", "/drift/look")
    assert {(one["kind"], one["instance"], one["name"], one["driver"]) for one in found["items"]} == {
        ("wrong_state", made["id"], "shop", "local"),
        ("orphan", "unheard-of", "stray", "local"),
    }
    [look] = found["looks"]
    assert (look["driver"], look["trouble"]) == ("local", "")
    shown = await working.ask("GET", "/drift")
    assert shown == found
    assert [one["closed_at"] or one["repair"] for one in shown["items"]] == [None, None]

    for one in shown["items"]:
        answer = await working.client.post(f"/api/v1/drift/{one['id']}/repair")
        assert (answer.status_code, answer.json()["id"]) == (202, one["id"])
        repair = answer.json()["repair"]
        await asyncio.to_thread(eventually, lambda repair=repair: execute(working.url, FINISHED, repair))
    assert (await working.ask("POST", "/drift/look"))["items"] == []
    over = await working.ask("GET", "/drift?closed=true&limit=1")
    assert len(over["items"]) == 1
    assert over["items"][0]["closed_at"]
    assert execute(working.url, "SELECT id, state FROM paper") == [(made["id"], "running")]
    problem = await working.refused("POST", f"/drift/{over['items'][0]['id']}/repair", 404)
    assert problem["code"] == "drift_unknown"


async def test_an_unknown_finding_cannot_be_repaired(api: Api) -> None:
    assert (await api.refused("POST", "/drift/1/repair", 404))["code"] == "drift_unknown"
    for number in ("x", "99999999999999999999"):
        assert (await api.refused("POST", f"/drift/{number}/repair", 422))["code"] == "invalid_request"
    await api.refused("GET", "/drift?limit=0", 422)
    await api.refused("GET", "/drift?unknown=1", 422)
