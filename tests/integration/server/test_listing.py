"""Lists of instances, page by page."""

from typing import Any

import pytest

from interlock.server.api import pagination
from support.api import Api
from support.postgres import execute

INSERT = """
    INSERT INTO interlock.instance (id, name, driver, orchestration, created_by, created_at, updated_at, tags)
    SELECT md5(n::text), 'i' || lpad(n::text, 4, '0'), 'local', 'none', 'test',
           timestamptz '2026-01-01' + n * interval '1 ms', now(),
           CASE WHEN mod(n, 2) = 0 THEN '{"even": "yes"}' ELSE '{}' END::jsonb
      FROM generate_series(%s::int, %s::int) AS n
"""


async def pages(api: Api, **query: Any) -> Any:
    """All pages, one after the other."""
    following: str | None = None
    while True:
        page = await api.ask("GET", "/instances", params=query | ({"after": following} if following else {}))
        yield [one["name"] for one in page["items"]]
        following = page["next"]
        if following is None:
            return


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("sort", ["name", "-name", "created", "-created", "state", "-health"])
async def test_no_record_is_skipped_or_repeated_while_others_are_inserted(api: Api, sort: str) -> None:
    execute(api.url, INSERT, 1000, 1119)
    seen: list[str] = []
    async for names in pages(api, sort=sort, limit=25):
        seen += names
        execute(api.url, INSERT, 500 + len(seen), 500 + len(seen))  # before all of them
        execute(api.url, INSERT, 5000 + len(seen), 5000 + len(seen))  # after all of them
    stayed = [name for name in seen if "i1000" <= name <= "i1119"]
    assert sorted(stayed) == [f"i{number}" for number in range(1000, 1120)]
    assert len(set(seen)) == len(seen)
    if sort in ("name", "created"):
        assert seen == sorted(seen)
    if sort in ("-name", "-created"):
        assert seen == sorted(seen, reverse=True)


async def test_filters_can_be_combined(api: Api) -> None:
    execute(api.url, INSERT, 1, 12)
    execute(api.url, "UPDATE interlock.instance SET state = 'running' WHERE name IN ('i0002', 'i0003', 'i0012')")
    execute(api.url, "UPDATE interlock.instance SET state = 'failed' WHERE name = 'i0004'")

    async def found(**query: Any) -> list[str]:
        return [one["name"] for one in (await api.ask("GET", "/instances", params=query))["items"]]

    assert await found(state="running") == ["i0002", "i0003", "i0012"]
    assert await found(state=["running", "failed"], tag="even=yes") == ["i0002", "i0004", "i0012"]
    assert await found(tag=["even=yes", "odd=yes"]) == []
    assert await found(name="i001") == ["i0010", "i0011", "i0012"]
    assert await found(name="%") == []


async def test_deleted_instances_are_listed_on_request(api: Api) -> None:
    await api.create("shop")
    execute(api.url, "UPDATE interlock.instance SET state = 'deleting'")
    execute(api.url, "UPDATE interlock.instance SET state = 'deleted', deleted_at = now(), names_freed_at = now()")
    assert (await api.ask("GET", "/instances"))["items"] == []
    [gone] = (await api.ask("GET", "/instances", params={"deleted": True}))["items"]
    assert (gone["name"], gone["state"]) == ("shop", "deleted")
    await api.refused("GET", "/instances/shop", 404)
    assert await api.show(gone["id"]) == gone


@pytest.mark.parametrize(
    "query",
    [
        {"after": "nonsense"},
        {"after": "bnVsbA"},
        {"after": "WyItbmFtZSIsICJhIiwgImIiXQ"},
        {"after": ""},
        {"limit": 0},
        {"limit": 201},
        {"sort": "colour"},
        {"state": "tired"},
        {"tag": "team"},
        {"tag": ["team=blue", "team=red"]},
        {"name": "a\0b"},
        {"filter": "x"},
    ],
    ids=str,
)
async def test_a_malformed_query_is_refused(api: Api, query: Any) -> None:
    assert (await api.refused("GET", "/instances", 422, params=query))["code"] in ("bad_spec", "invalid_request")


async def test_events_are_listed_page_by_page_newest_first(api: Api) -> None:
    shop = await api.create("shop")
    execute(
        api.url,
        "INSERT INTO interlock.event SELECT 'instance', %s, now() + n / 2 * interval '1 ms', kind, kind, 'interlock'"
        " FROM generate_series(1, 30) AS n, format('kind-%%s', n) AS kind",
        shop["id"],
    )
    expected = execute(api.url, "SELECT kind FROM interlock.event ORDER BY recorded_at DESC, kind DESC")
    seen: list[str] = []
    following: str | None = None
    while True:
        query = {"limit": 7} | ({"after": following} if following else {})
        page = await api.ask("GET", "/instances/shop/events", params=query)
        seen += [one["kind"] for one in page["items"]]
        if (following := page["next"]) is None:
            break
    assert seen == [kind for (kind,) in expected]
    for moment in ("nonsense", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        forged = pagination.packed("events", moment, "kind-1")
        await api.refused("GET", "/instances/shop/events", 422, params={"after": forged})
    await api.refused("GET", "/instances/shop/events", 422, params={"after": "nonsense"})


async def test_health_checks_are_listed_newest_first(api: Api) -> None:
    shop = await api.create("shop")
    execute(
        api.url,
        "INSERT INTO interlock.instance_check SELECT %s, now() + n * interval '1 s', n <> 2, n, '' "
        "FROM generate_series(1, 3) AS n",
        shop["id"],
    )
    checks = (await api.ask("GET", "/instances/shop/checks", params={"limit": 2}))["items"]
    assert [(one["healthy"], one["milliseconds"]) for one in checks] == [(True, 3.0), (False, 2.0)]
