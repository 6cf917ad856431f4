import os
from pathlib import Path

import pytest

from interlock.embedded.accounts import Account
from interlock.embedded.files import make_private
from interlock.embedded.paths import ClusterPaths
from interlock.errors import DataDirectoryUnusable

US = Account("us", os.geteuid(), os.getegid())


def test_the_socket_is_in_the_root_while_its_path_fits() -> None:
    longest = Path("/" + "x" * (107 - len("//run/.s.PGSQL.65535")))

    assert ClusterPaths(longest).sockets(US) == longest / "run"


def test_the_socket_of_a_longer_path_is_elsewhere_and_always_in_the_same_place() -> None:
    too_long = Path("/" + "x" * (108 - len("//run/.s.PGSQL.65535")))

    assert ClusterPaths(too_long).sockets(US).parent == Path("/tmp")
    assert ClusterPaths(too_long).sockets(US) == ClusterPaths(too_long).sockets(US)


def test_the_length_of_a_path_is_counted_in_bytes() -> None:
    assert ClusterPaths(Path("/" + "ü" * 60)).sockets(US).parent == Path("/tmp")


def test_a_path_with_a_comma_would_be_two_hosts_to_a_client() -> None:
    assert ClusterPaths(Path("/a,b")).sockets(US).parent == Path("/tmp")


def test_two_roots_have_different_sockets() -> None:
    one, other = (ClusterPaths(Path("/" + letter * 120)).sockets(US) for letter in "ab")

    assert one != other


def test_a_directory_that_others_can_enter_is_not_taken_for_private(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)

    with pytest.raises(DataDirectoryUnusable, match="not safe"):
        make_private(tmp_path / "open", US)


def test_a_link_is_not_taken_for_a_private_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")

    with pytest.raises(DataDirectoryUnusable, match="not safe"):
        make_private(tmp_path / "link", US)


def test_a_directory_of_another_user_is_not_taken_for_private(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    somebody_else = Account("else", os.geteuid() + 1, os.getegid())

    with pytest.raises(DataDirectoryUnusable, match="not safe"):
        make_private(tmp_path / "theirs", somebody_else)


def test_leftovers_of_a_crashed_creation_are_not_foreign(tmp_path: Path) -> None:
    for name in ("data.new", "data.deleted", "postgresql-17.10.new", "lost+found"):
        (tmp_path / name).mkdir()
    for name in ("control.lock", "users.lock", "password", "password.new", "server.pem"):
        (tmp_path / name).touch()

    ClusterPaths(tmp_path).check()


def test_a_directory_with_other_things_is_foreign(tmp_path: Path) -> None:
    (tmp_path / "thesis.odt").touch()

    with pytest.raises(DataDirectoryUnusable, match=r"thesis\.odt.*--data-dir"):
        ClusterPaths(tmp_path).check()


def test_data_without_interlocks_password_are_foreign(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "PG_VERSION").write_text("17\n")

    with pytest.raises(DataDirectoryUnusable, match="not made by Interlock"):
        ClusterPaths(tmp_path).check()
