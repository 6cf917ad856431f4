"""If-Match and the actor of a request, in the routes where they are easily forgotten."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from support.api import Api, resting_api
from support.paper_driver import TABLES, PaperDriver
from support.postgres import execute

INSTANCE = """
    INSERT INTO interlock.instance (id, name, driver, orchestration, created_by, created_at, updated_at, working,
                                    host, port, owner, database)
    VALUES ('i1', 'shop', 'local', 'o1', 'test', now(), now(), false, '127.0.0.1', 1, 'shop', 'shop')
"""
RUNNING = "UPDATE interlock.instance SET state = 'running', revision = 7"
BACKUP = """
    INSERT INTO interlock.instance_backup (id, instance, instance_name, format, orchestration, created_by, working,
                                           created_at, updated_at)
    VALUES ('b1b1b1b1', 'i1', 'shop', 'file', 'o2', 'test', false, now(), now())
"""
MADE = """
    UPDATE interlock.instance_backup SET state = 'made', path = 'x', size_bytes = 1, sha256 = 'x',
           server_version = '17.5', program_version = '17.5', made_at = now()
"""
DRIFT = """
    INSERT INTO interlock.instance_drift (driver, instance, kind, name, detail, found_at)
    VALUES ('local', 'i1', 'wrong_state', 'shop', 'It is stopped.', now()) RETURNING id
"""


@pytest.fixture
async def shop_api(interlock_url: str) -> AsyncIterator[Api]:
    execute(interlock_url, TABLES)

    def none() -> Any:
        raise AssertionError("this API provisions nothing")

    async with resting_api(interlock_url, PaperDriver(lambda: interlock_url, none)) as api:
        for statement in (INSTANCE, RUNNING, BACKUP, MADE):
            execute(interlock_url, statement)
        yield api


async def test_a_restore_into_an_instance_that_has_changed_since_is_refused(shop_api: Api) -> None:
    """A restore replaces data, so a stale revision must not start one."""
    stale = {"If-Match": '"3"'}
    problem = await shop_api.refused("POST", "/backups/b1b1b1b1/restore", 412, json={"into": "shop"}, headers=stale)
    assert (problem["code"], problem["revision"]) == ("record_changed", 7)


async def test_the_actor_of_a_repair_is_in_the_events(shop_api: Api) -> None:
    [[finding]] = execute(shop_api.url, DRIFT)
    await shop_api.ask("POST", f"/drift/{finding}/repair")
    [event] = (await shop_api.ask("GET", "/instances/shop/events"))["items"]
    assert event["kind"] == "mend requested"
    assert event["actor"].startswith("key:")


@pytest.mark.parametrize("value", ["9" * 5000, "9" * 30])
async def test_an_etag_with_very_many_digits_is_refused_without_a_server_error(shop_api: Api, value: str) -> None:
    answer = await shop_api.client.post("/api/v1/instances/shop/stop", headers={"If-Match": f'"{value}"'})
    assert answer.status_code in (412, 422), answer.text


async def test_a_bulk_delete_does_not_compare_one_revision_with_many_records(shop_api: Api) -> None:
    """Either it is refused as a whole, or If-Match is not offered: one revision cannot describe several records."""
    body = {"instances": ["shop"]}
    answer = await shop_api.client.post("/api/v1/instances/bulk-delete", json=body, headers={"If-Match": '"7"'})
    assert "etag" not in answer.headers
