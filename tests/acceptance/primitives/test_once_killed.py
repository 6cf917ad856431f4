"""A process that is killed after the effect and before the record: the next one acts as the page says."""

import os
import subprocess
import sys
from pathlib import Path
from signal import SIGKILL

import pytest

from interlock.errors import OnceInterrupted
from support.once_victim import EFFECTS, Mode, once
from support.postgres import execute
from support.programs import environment


@pytest.fixture
def url(interlock_url: str) -> str:
    execute(interlock_url, EFFECTS)
    return interlock_url


def effects(url: str) -> list[int]:
    return [process for (process,) in execute(url, "SELECT process FROM effect")]


def killed(url: str, mode: Mode) -> int:
    """Kill the process. Returns its number."""
    paths = os.pathsep.join([*sys.path, str(Path(__file__).parents[2])])
    command = [sys.executable, "-m", "support.once_victim", url, mode]
    with subprocess.Popen(command, env=environment(PYTHONPATH=paths), stderr=subprocess.PIPE, text=True) as victim:
        _, complaint = victim.communicate()
    assert victim.returncode == -SIGKILL, complaint
    return victim.pid


async def test_it_is_done_again(url: str) -> None:
    victim = killed(url, "again")
    assert effects(url) == [victim]
    assert await once(url, "again", dies=False) == os.getpid()
    assert effects(url) == [victim, os.getpid()]


async def test_it_is_detected_with_unfinished_raise(url: str) -> None:
    victim = killed(url, "raise")
    for _ in range(2):
        with pytest.raises(OnceInterrupted, match="was begun"):
            await once(url, "raise", dies=False)
    assert effects(url) == [victim], "nothing was done unseen"
    assert await once(url, "again", dies=False) == os.getpid(), "after a manual check"
    assert await once(url, "raise", dies=False) == os.getpid(), "from then on it is recorded"
    assert effects(url) == [victim, os.getpid()]


async def test_it_cannot_happen_in_one_transaction(url: str) -> None:
    killed(url, "inside")
    assert effects(url) == []
    assert await once(url, "inside", dies=False) == os.getpid()
    assert effects(url) == [os.getpid()]
