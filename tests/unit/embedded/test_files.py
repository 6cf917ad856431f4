"""Directories that are created as parents of a cluster's."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.embedded.accounts import Account
from interlock.embedded.files import make_reachable
from support.postgres import open_directory

US = Account("us", os.geteuid(), os.getegid())
OTHER = Account("other", 65534, 65534)


@pytest.fixture(autouse=True)
def generous() -> Iterator[None]:
    """A umask that lets everybody do everything."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(*places: Path) -> list[int]:
    return [stat.S_IMODE(place.stat().st_mode) for place in places]


def test_directories_for_this_user_are_private(tmp_path: Path) -> None:
    share, data, root = tmp_path / "share", tmp_path / "share" / "data", tmp_path / "share" / "data" / "postgres"
    make_reachable(root, US)
    assert modes(share, data, root) == [0o700] * 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another user")
def test_the_user_for_root_can_pass_through_and_cannot_write() -> None:
    with open_directory("interlock-reach-") as place:
        data, root = place / "share" / "data", place / "share" / "data" / "postgres"
        make_reachable(root, OTHER)
        assert modes(data.parent, data, root) == [0o755, 0o755, 0o711]


def test_existing_directories_stay_unchanged(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o750)
    make_reachable(tmp_path / "there" / "data", US)
    assert modes(tmp_path / "there") == [0o750]
