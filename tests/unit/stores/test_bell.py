"""Bells: who is rung hears it, who cannot be rung is known not to have been, and nothing of them is left behind."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.stores.postgres.bell import Bell, place_of_this_machine
from support.forks import Child, in_child

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
PLACE = place_of_this_machine()


@asynccontextmanager
async def hung(on_ring: Callable[[str], None] = lambda word: None) -> AsyncIterator[Bell]:
    assert PLACE is not None
    bell = Bell(PLACE, on_ring)
    try:
        yield bell
    finally:
        bell.close()


async def test_who_is_rung_hears_each_word_in_its_order() -> None:
    words: asyncio.Queue[str] = asyncio.Queue()
    async with hung() as ours, hung(words.put_nowait) as theirs:
        assert all(ours.ring(theirs.number, word) for word in ("a", "b", "ä"))
        assert [await words.get() for _ in range(3)] == ["a", "b", "ä"]


async def test_bells_of_one_machine_know_each_other_by_their_numbers() -> None:
    async with hung() as ours, hung() as theirs:
        assert ours.is_near(theirs.number)
        assert ours.number != theirs.number
        assert max(ours.number, theirs.number) < 0
        assert min(ours.number, theirs.number) >= -(2**31)
        assert not ours.is_near(ours.number + 2**16)
        assert not ours.is_near(ours.number + 2**31)


async def test_a_number_that_is_taken_is_not_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([7, 7, 7, 8])
    monkeypatch.setattr(random, "randrange", lambda _: next(drawn))
    async with hung() as ours, hung() as theirs:
        assert (ours.number & 0xFFFF, theirs.number & 0xFFFF) == (7, 8)


async def test_where_all_numbers_are_taken_nobody_tries_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "randrange", lambda _: 7)
    async with hung():
        with pytest.raises(OSError, match="taken all bells"):
            async with hung():
                pass


async def test_where_nobody_is_nobody_is_told() -> None:
    async with hung() as ours:
        async with hung() as theirs:
            pass
        assert not ours.ring(theirs.number, "a")
        theirs.close()


async def test_who_does_not_listen_is_not_told_for_ever_and_who_rings_does_not_wait() -> None:
    """Its process was stopped, say. The kernel has room for some words and not for all."""
    async with hung() as ours, hung() as theirs:
        told = [ours.ring(theirs.number, "a" * 100) for _ in range(20_000)]
    assert told[0]
    assert not told[-1]


async def test_a_bell_that_cannot_be_hung_leaves_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError

    monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", refuse, raising=False)
    with pytest.raises(PermissionError):
        async with hung():
            pass  # an open socket would be a warning, and so an error


async def test_a_forked_child_keeps_nothing_of_its_parents_bell() -> None:
    """After the parent's death it would still seem to be there. Its number stays taken: an event loop may know it."""
    async with hung() as ours, hung() as theirs:
        descriptor = ours._socket.fileno()

        def look() -> str:
            return str(Path(f"/proc/self/fd/{descriptor}").readlink())

        assert in_child(look) == "/dev/null"
        assert theirs.ring(ours.number, "a")


async def test_an_interrupt_while_a_child_lets_go_of_a_bell_leaves_it_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted: list[int] = []

    def interrupt(descriptor: int) -> None:
        interrupted.append(descriptor)
        monkeypatch.undo()
        raise KeyboardInterrupt

    async with hung() as ours, hung() as theirs:
        descriptors = [each._socket.fileno() for each in (ours, theirs)]

        def look() -> list[str]:
            assert interrupted
            return [str(Path(f"/proc/self/fd/{descriptor}").readlink()) for descriptor in descriptors]

        monkeypatch.setattr("interlock.stores.postgres.bell.put_nothing_in_place_of", interrupt)
        child = Child(look)
        assert child.result() == ["/dev/null"] * 2
        child.end()
        assert theirs.ring(ours.number, "a")


async def test_bells_of_an_event_loop_that_has_ended_can_be_closed() -> None:
    assert PLACE is not None
    place = PLACE

    async def hang() -> Bell:
        return Bell(place, lambda word: None)

    bell = await asyncio.to_thread(asyncio.run, hang())
    bell.close()
    async with hung() as ours:
        assert not ours.ring(bell.number, "a")


async def test_one_who_rings_without_end_leaves_others_their_turn() -> None:
    """Each turn of the event loop hears one word."""
    heard: list[int] = []
    turn = 0

    def note(_: str) -> None:
        heard.append(turn)

    async with hung() as ours, hung(note) as theirs:
        sent = sum(ours.ring(theirs.number, "a") for _ in range(5))
        while len(heard) < sent:
            turn += 1
            await asyncio.sleep(0)
    assert len(set(heard)) == sent == 5


def test_without_proc_there_are_no_bells(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*args: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr("pathlib.Path.read_bytes", missing)
    assert place_of_this_machine() is None
