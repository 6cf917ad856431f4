"""docs/reference/api.md names every route, and each of its commands works."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import httpx
from fastapi.routing import iter_route_contexts

from support.api import ADDRESS, Api

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "api.md").read_text(encoding="utf-8")


def commands() -> Iterator[list[str]]:
    """Each `curl` command of the page, as a shell would split it."""
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("curl "):
                yield shlex.split(line)[1:]


async def carried_out(client: httpx.AsyncClient, key: str, words: list[str]) -> httpx.Response:
    method, headers, body, url = "GET", {}, None, ""
    rest = iter(word.replace("$KEY", key).replace("$URL", f"{ADDRESS}/api/v1") for word in words)
    for word in rest:
        match word:
            case "-X":
                method = next(rest)
            case "-H":
                name, _, value = next(rest).partition(": ")
                headers[name] = value
            case "-d":
                method, body = "POST", next(rest)
            case "-N":
                pass
            case _:
                url = word
    return await client.request(method, url, headers=headers, content=body)


async def test_the_commands_of_the_page_work(working: Api) -> None:
    found = list(commands())
    assert len(found) >= 8
    async with working.stranger() as client:
        for words in found:
            answer = await carried_out(client, working.key, words)
            assert answer.is_success, (words, answer.text)
            if answer.status_code == 202:
                await working.settled(answer.json()["id"])


async def test_the_page_names_exactly_the_routes(api: Api) -> None:
    routes = {
        f"{method} {(route.path or '').removeprefix('/api/v1')}"
        for route in iter_route_contexts(api.app.routes)
        if (route.path or "").startswith("/api/v1")
        for method in route.methods or ()
    }
    assert set(re.findall(r"^\| `([A-Z]+ /\S+)` \|", PAGE, re.MULTILINE)) == routes
