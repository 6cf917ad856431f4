"""The API key in the data directory: one key, private, and never incomplete."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interlock.errors import DataDirectoryUnusable
from interlock.keys.records import is_key, new_key
from interlock.server.data_directory import local_api_key


def test_the_key_is_created_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    key = local_api_key(tmp_path / "data")
    assert is_key(key)
    assert local_api_key(tmp_path / "data") == key
    assert (tmp_path / "data" / "api-key").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in (tmp_path / "data").iterdir()] == ["api-key"]


def test_no_other_user_can_write_to_its_directory_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        local_api_key(tmp_path / "share" / "data")
    finally:
        os.umask(before)
    for made in (tmp_path / "share", tmp_path / "share" / "data", tmp_path / "share" / "data" / "api-key"):
        assert not made.stat().st_mode & 0o022, made


def test_concurrent_threads_get_the_same_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(20) as threads:
        keys = set(threads.map(local_api_key, [tmp_path] * 200))
    assert len(keys) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["api-key"]


def test_a_temporary_file_of_a_crash_is_not_used(tmp_path: Path) -> None:
    (tmp_path / ".api-key.0123456789abcdef").write_text("ilk_half")
    assert is_key(local_api_key(tmp_path))


WHOLE = "ilk_" + "x" * 43


@pytest.mark.parametrize(("content", "mode"), [("ilk_half", 0o600), ("", 0o600), (WHOLE, 0o644), (WHOLE, 0o640)])
def test_a_file_that_others_can_read_or_that_is_no_key_is_refused(tmp_path: Path, content: str, mode: int) -> None:
    (tmp_path / "api-key").write_text(content)
    (tmp_path / "api-key").chmod(mode)
    with pytest.raises(
        DataDirectoryUnusable, match="remove the file, and the next `interlock up` creates another"
    ) as refusal:
        local_api_key(tmp_path)
    assert content == "" or content not in str(refusal.value)


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(new_key())
    elsewhere.chmod(0o600)
    (tmp_path / "api-key").symlink_to(elsewhere)
    with pytest.raises(DataDirectoryUnusable):
        local_api_key(tmp_path)
