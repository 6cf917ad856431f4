"""Reading and following of the server's log."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.local.log_lines import read_lines
from interlock.instances.drivers.port import Spec
from support.local_instances import Shop, connected


async def told(lines: AsyncIterator[str]) -> list[str]:
    return [line async for line in lines]


@pytest.mark.exhaustive(beyond=6)
@pytest.mark.parametrize(
    "content", ["", "one", "one\n", "one\ntwo\n", "\n\n", "".join(f"line {n}\n" for n in range(30))]
)
@pytest.mark.parametrize("lines", [0, 1, 2, 1000])
async def test_the_last_lines_are_the_last_lines(
    tmp_path: Path, content: str, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.instances.drivers.local.log_lines._BLOCK", 7)
    log = tmp_path / "log"
    log.write_text(content)

    assert await told(read_lines(log, lines, follow=False)) == (content.splitlines()[-lines:] if lines else [])


async def test_a_long_line_is_returned_in_parts_and_never_held_as_a_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.write(b"LOG\n" * 5 + b"STATEMENT" + b"x" * 8 * 2**20 + b"\nLOG\n")
    for follow in (False, True):
        tracemalloc.start()
        reading, length = read_lines(log, 3, follow=follow), 0
        assert await anext(reading) == "LOG"
        while (line := await anext(reading)) != "LOG":
            length += len(line)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        await reading.aclose()
        assert length == len("STATEMENT") + 8 * 2**20
        assert most < 2**20


async def test_following_returns_whole_lines_also_of_a_replaced_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("old\nlast\n")
    following = read_lines(log, 1, follow=True)
    assert await anext(following) == "last"

    with log.open("a") as file:
        file.write("begun ")
        file.flush()
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)
        file.write("and ended\n")
    assert await waiting == "begun and ended"

    log.rename(tmp_path / "log.old")
    log.write_text("new\n")
    assert await anext(following) == "new"
    log.unlink()
    assert await told(following) == []


async def test_a_refused_login_appears_in_a_followed_log(shop: Shop) -> None:
    following = shop.driver.logs(shop.spec.id, lines=0, follow=True)

    async def refusal() -> str:
        """Skip other lines that the server may log before."""
        async for line in following:
            if "password authentication failed" in line:
                return line
        raise AssertionError("the log has ended")

    seen = asyncio.ensure_future(refusal())
    while not seen.done():
        with pytest.raises(asyncpg.InvalidPasswordError):
            await connected(await shop.endpoint(), "guess")
        await asyncio.wait([seen], timeout=0.1)

    assert 'for user "shop"' in seen.result()
    await following.aclose()


async def test_following_ends_with_the_instance(driver: LocalDriver, spec: Spec) -> None:
    await driver.provision(spec)
    following = asyncio.ensure_future(told(driver.logs(spec.id, follow=True)))

    await driver.remove(spec.id)

    assert any("ready to accept connections" in line for line in await following)
