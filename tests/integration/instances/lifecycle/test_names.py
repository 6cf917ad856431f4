"""A name belongs to one instance, from the request until everything of that instance is gone."""

import asyncio
from typing import Any

import psycopg
import pytest

from interlock import errors
from interlock.dns import NoDns
from interlock.instances import names
from interlock.instances.records import InstanceRecord
from support.instances import Plane, control_plane
from support.paper_driver import PaperDriver
from support.postgres import execute

HELD = "SELECT scope, name, owner FROM interlock.claim WHERE released_at IS NULL ORDER BY scope, name"
# Except for watchers, which come by themselves as soon as an instance runs.
EVERYTHING = """
    SELECT (SELECT count(*) FROM interlock.instance),
           (SELECT count(*) FROM interlock.orchestration WHERE name <> 'instances.watch_health')
"""


async def test_a_name_that_is_taken_is_refused_at_once_with_its_owner_and_nothing_is_created(plane: Plane) -> None:
    first = await plane.create("shop", dns_name="db.example.com")
    held, there = execute(plane.url, HELD), execute(plane.url, EVERYTHING)
    for name, dns_name, taken in [
        ("SHOP", None, "shop"),
        ("other", "DB.example.com.", "db.example.com"),
        ("shop", "db.example.com", "shop"),
    ]:
        with pytest.raises(errors.NameTaken, match=f"belongs to the instance shop .{first.id}") as refusal:
            await plane.create(name, dns_name=dns_name)
        assert (refusal.value.owner, refusal.value.name) == (first.id, taken)
    assert (execute(plane.url, HELD), execute(plane.url, EVERYTHING)) == (held, there)
    assert [(scope, name) for scope, name, _ in held] == [("dns", "db.example.com"), ("instance", "shop")]


async def test_a_rolled_back_request_never_happened(plane: Plane) -> None:
    connection = await psycopg.AsyncConnection.connect(plane.url)
    await plane.instances.create(connection, "shop", driver="paper", dns_name="db.example.com")
    await connection.rollback()
    await connection.close()
    assert (execute(plane.url, HELD), execute(plane.url, EVERYTHING)) == ([], [(0, 0)])


REFUSED: list[tuple[dict[str, Any], type[errors.InterlockError]]] = [
    ({"name": "bad name!"}, errors.InvalidName),
    ({"name": "postgres"}, errors.InvalidName),
    ({"dns_name": "10.0.0.1"}, errors.InvalidName),
    ({"version": "9.6"}, errors.BadSpec),
    ({"storage": "1k"}, errors.BadSpec),
    ({"parameters": {"no such": "1"}}, errors.BadSpec),
    ({"tags": {"": "x"}}, errors.BadSpec),
    ({"driver": "vmware"}, errors.ConfigurationError),
]


async def test_a_request_that_cannot_be_is_refused_and_leaves_nothing(plane: Plane) -> None:
    for wishes, error in REFUSED:
        with pytest.raises(error):
            await plane.create(**{"name": "shop"} | wishes)
        assert (execute(plane.url, HELD), execute(plane.url, EVERYTHING)) == ([], [(0, 0)]), wishes


@pytest.mark.exhaustive
@pytest.mark.timeout(200)
async def test_one_of_five_concurrent_requests_gets_the_name(
    plane: Plane, paper: PaperDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "_PATIENCE", 60.0)
    wanted = {f"db{number}": "same.example.com" if number < 5 else None for number in range(20)}
    requests = (plane.create(name, dns_name=dns_name) for name, dns_name in wanted.items())
    answers = await asyncio.gather(*requests, return_exceptions=True)
    asked = [answer for answer in answers if isinstance(answer, InstanceRecord)]
    refused = [answer for answer in answers if isinstance(answer, errors.NameTaken)]
    assert (len(asked), len(refused)) == (16, 4)
    [owner] = [one.id for one in asked if one.dns_name]
    assert {one.owner for one in refused} == {owner}
    made = await asyncio.gather(*(plane.done(one) for one in asked))
    assert [one.state for one in made] == ["running"] * 16
    assert await paper.ids() == {one.id: one.name for one in made}
    assert execute(plane.url, "SELECT name, id FROM published") == [("same.example.com", owner)]
    assert len(execute(plane.url, HELD)) == 17


EVENTS = "SELECT kind FROM interlock.event WHERE kind IN ('published', 'withdrawn') ORDER BY recorded_at"


async def test_the_history_says_published_only_where_a_name_was_published(
    plane: Plane, url: str, paper: PaperDriver
) -> None:
    without = await plane.created("nameless")
    assert (await plane.told(plane.instances.delete, without.id)).state == "deleted"
    assert execute(url, EVENTS) == []
    named = await plane.created("shop", dns_name="db.example.com")
    assert (await plane.told(plane.instances.delete, named.id)).state == "deleted"
    assert execute(url, EVENTS) == [("published",), ("withdrawn",)]


async def test_the_history_does_not_say_published_without_a_dns_driver(url: str, paper: PaperDriver) -> None:
    async with control_plane(url, paper, dns=NoDns()) as plane:
        named = await plane.created("shop", dns_name="db.example.com")
        assert (await plane.told(plane.instances.delete, named.id)).state == "deleted"
    assert execute(url, EVENTS) == []


async def test_a_name_is_free_again_when_its_instance_is_gone(plane: Plane) -> None:
    first = await plane.created("shop", dns_name="db.example.com")
    assert (await plane.told(plane.instances.delete, first.id)).state == "deleted"
    assert execute(plane.url, HELD) == []
    second = await plane.created("shop", dns_name="db.example.com")
    assert second.state == "running"
    assert (await plane.ask(plane.instances.records.find, "shop")).id == second.id
    assert (await plane.ask(plane.instances.records.find, first.id)).state == "deleted"
    with pytest.raises(errors.InstanceUnknown, match="is deleted"):
        await plane.ask(plane.instances.delete, first.id)
