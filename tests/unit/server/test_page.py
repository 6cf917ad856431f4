"""The first page."""

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
from interlock.server.page import in_words, mood
from interlock.server.readiness import Readiness
from interlock.server.startup import Phase, Startup

STATUS = SchemaStatus("interlock", State.CURRENT, frozenset({MigrationScript(7, "pre")}), ())


async def page(client: httpx.AsyncClient) -> str:
    answer = await client.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    return answer.text


async def test_it_says_what_this_replica_is(client: httpx.AsyncClient, startup: Startup) -> None:
    startup.finish("postgresql://user:secret@host/name", STATUS)
    text = await page(client)
    for fact in (replica_id(), __version__, "Ready", "interlock, version 7, current"):
        assert fact in text
    assert "secret" not in text


async def test_what_is_shown_is_escaped(client: httpx.AsyncClient) -> None:
    assert "host/&lt;name&gt;" in await page(client)


async def test_it_is_there_while_the_replica_starts_and_says_who_is_waited_for(
    client: httpx.AsyncClient, startup: Startup
) -> None:
    startup.enter("waiting", OpenRun(3, "web-1", "node-a", None, "add index", 10.0, 12.2, False, False))
    text = " ".join((await page(client)).split())
    assert 'data-state="starting"' in text
    assert "It is web-1, for 12 s, at “add index”." in text


async def test_it_says_when_the_database_is_silent(
    client: httpx.AsyncClient, startup: Startup, readiness: Readiness
) -> None:
    startup.finish("postgresql:///", STATUS)
    readiness.answer = "It is silent."  # type: ignore[attr-defined]
    text = await page(client)
    assert 'data-state="trouble"' in text
    assert "It is silent." in text


async def test_it_loads_nothing_from_elsewhere_and_everything_it_loads_is_there(client: httpx.AsyncClient) -> None:
    text = await page(client)
    resources = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert len(resources) == 4
    for resource in resources:
        assert resource.startswith("/")
        assert (await client.get(resource)).status_code == 200
    assert "style=" not in text


async def test_the_browser_is_told_to_load_nothing_from_elsewhere(client: httpx.AsyncClient) -> None:
    policy = (await client.get("/")).headers["content-security-policy"]
    assert policy.split("; ")[0] == "default-src 'self'"


@pytest.mark.parametrize("phase", get_args(Phase))
def test_every_phase_has_words(phase: Phase) -> None:
    assert mood(phase, None).headline


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.9, "0 s"), (59, "59 s"), (60, "1 min 0 s"), (3 * 3600 + 5, "3 h 0 min"), (90061, "1 d 1 h")],
)
def test_a_duration_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
