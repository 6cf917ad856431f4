"""The control plane that a command talks to, and its key, which is sent to no other server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.server.location import ServerLocation, locate_server, running_servers
from interlock.errors import ConfigurationError, KeyRefused, ServerUnreachable
from support.scripted_server import KEY, listed, private

HERE = "http://127.0.0.1:8080"
ELSEWHERE = "https://interlock.example.com"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SERVER", "API_KEY", "CONFIG"):
        monkeypatch.delenv(f"INTERLOCK_{name}", raising=False)
    monkeypatch.setenv("INTERLOCK_DATA_DIR", str(tmp_path))


def found(**flags: Any) -> tuple[list[str], str]:
    location: ServerLocation = locate_server(flags)
    return list(location.addresses()), location.key


def test_address_and_key_are_found_on_the_machine_of_the_server(tmp_path: Path) -> None:
    with listed(tmp_path, HERE):
        assert found() == ([HERE], KEY)


def test_the_file_of_a_dead_server_is_ignored(tmp_path: Path) -> None:
    with listed(tmp_path, HERE):
        pass
    assert running_servers(tmp_path) == []
    with listed(tmp_path, HERE, "two"):
        assert running_servers(tmp_path) == [HERE]


def test_files_of_other_programs_are_ignored(tmp_path: Path) -> None:
    with listed(tmp_path, HERE):
        private(tmp_path / "servers" / "a.json", "[")
        private(tmp_path / "servers" / "b.json", "[]")
        (tmp_path / "servers" / "c.json").write_text(json.dumps({"url": ELSEWHERE}))
        assert running_servers(tmp_path) == [HERE]


def test_a_file_that_other_users_can_write_is_ignored(tmp_path: Path) -> None:
    with listed(tmp_path, ELSEWHERE):
        (tmp_path / "servers" / "one.json").chmod(0o602)
        assert running_servers(tmp_path) == []


def test_a_named_server_gets_the_key_that_is_set_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_SERVER", ELSEWHERE + "/")
    monkeypatch.setenv("INTERLOCK_API_KEY", "ilk_elsewhere")
    assert found() == ([ELSEWHERE], "ilk_elsewhere")


def test_the_key_of_this_machine_is_not_sent_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_SERVER", ELSEWHERE)
    with listed(tmp_path, HERE), pytest.raises(ConfigurationError, match="no key for https://interlock"):
        found()


def test_a_server_of_this_machine_may_be_named(tmp_path: Path) -> None:
    with listed(tmp_path, HERE):
        assert found(server=HERE + "/") == ([HERE], KEY)


def test_a_key_that_is_set_for_one_server_is_not_sent_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_SERVER", ELSEWHERE)
    monkeypatch.setenv("INTERLOCK_API_KEY", "ilk_elsewhere")
    assert found(server=ELSEWHERE) == ([ELSEWHERE], "ilk_elsewhere")
    with pytest.raises(ConfigurationError, match="no key for https://other"):
        found(server="https://other")


def test_a_key_without_a_server_goes_with_the_one_that_the_flag_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_API_KEY", "ilk_elsewhere")
    assert found(server=ELSEWHERE) == ([ELSEWHERE], "ilk_elsewhere")


def test_a_data_directory_on_the_command_line_means_the_servers_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INTERLOCK_SERVER", ELSEWHERE)
    monkeypatch.setenv("INTERLOCK_API_KEY", "ilk_elsewhere")
    with listed(tmp_path / "other", HERE):
        assert found(data_dir=tmp_path / "other") == ([HERE], KEY)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_key_that_other_users_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    with listed(tmp_path, HERE):
        (tmp_path / "api-key").chmod(mode)
        with pytest.raises(KeyRefused, match="chmod 600"):
            found()


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe", b"a\nb"])
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: bytes) -> None:
    with listed(tmp_path, HERE):
        (tmp_path / "api-key").write_bytes(content)
        with pytest.raises(KeyRefused, match="no key in"):
            found()


def test_the_error_without_a_server_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ServerUnreachable, match=f"has run on {tmp_path} yet: start `interlock up`"):
        found()


def test_a_key_with_a_line_break_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_API_KEY", "ilk_secret\nX-Injected: yes")
    with pytest.raises(ConfigurationError, match="no key has") as refused:
        found(server=ELSEWHERE)
    assert "ilk_secret" not in str(refused.value)


def test_an_unreadable_directory_is_an_error_unless_a_server_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(path: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", closed)
    with pytest.raises(ConfigurationError, match="no key for https://interlock"):
        found(server=ELSEWHERE)
    monkeypatch.setenv("INTERLOCK_API_KEY", "ilk_elsewhere")
    assert found(server=ELSEWHERE) == ([ELSEWHERE], "ilk_elsewhere")
    with pytest.raises(KeyRefused, match=rf"{tmp_path}/servers cannot be read \(Permission denied\)"):
        found()
