"""The home page."""

import re
from typing import get_args

import httpx
import pytest

from interlock import __version__
from interlock.gate.progress import OpenRun
from interlock.identity import replica_id
from interlock.schema import State
from interlock.schema.migrations import MigrationScript
from interlock.schema.status import SchemaStatus
from interlock.server.home_page import duration_text, page_status
from interlock.server.readiness import Readiness
from interlock.server.startup import Phase, Startup

STATUS = SchemaStatus("interlock", State.CURRENT, frozenset({MigrationScript(7, "pre")}), ())


async def page(client: httpx.AsyncClient) -> str:
    answer = await client.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    return answer.text


async def test_the_page_shows_the_facts_of_this_replica(client: httpx.AsyncClient, startup: Startup) -> None:
    startup.finish("postgresql://user:secret@host/name", STATUS)
    text = await page(client)
    for fact in (replica_id(), __version__, "Ready", "interlock, version 7, current"):
        assert fact in text
    assert "secret" not in text


async def test_facts_on_the_page_are_escaped(client: httpx.AsyncClient) -> None:
    assert "host/&lt;name&gt;" in await page(client)


async def test_during_the_start_the_page_shows_the_replica_that_is_waited_for(
    client: httpx.AsyncClient, startup: Startup
) -> None:
    startup.enter("waiting", OpenRun(3, "web-1", "node-a", None, "add index", 10.0, 12.2, False, False))
    text = " ".join((await page(client)).split())
    assert 'data-state="starting"' in text
    assert "It is web-1, for 12 s, at “add index”." in text


async def test_the_page_shows_that_the_database_does_not_answer(
    client: httpx.AsyncClient, startup: Startup, readiness: Readiness
) -> None:
    startup.finish("postgresql:///", STATUS)
    readiness.answer = "It is silent."  # type: ignore[attr-defined]
    text = await page(client)
    assert 'data-state="trouble"' in text
    assert "It is silent." in text


async def test_the_page_loads_only_files_of_this_server_and_all_exist(client: httpx.AsyncClient) -> None:
    text = await page(client)
    resources = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert len(resources) == 4
    for resource in resources:
        assert resource.startswith("/")
        assert (await client.get(resource)).status_code == 200
    assert "style=" not in text


async def test_the_security_policy_forbids_files_of_other_sites(client: httpx.AsyncClient) -> None:
    policy = (await client.get("/")).headers["content-security-policy"]
    assert policy.split("; ")[0] == "default-src 'self'"


@pytest.mark.parametrize("phase", get_args(Phase))
def test_every_phase_has_a_headline(phase: Phase) -> None:
    assert page_status(phase, None).headline


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.9, "0 s"), (59, "59 s"), (60, "1 min 0 s"), (3 * 3600 + 5, "3 h 0 min"), (90061, "1 d 1 h")],
)
def test_a_duration_is_shown_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert duration_text(seconds) == words
