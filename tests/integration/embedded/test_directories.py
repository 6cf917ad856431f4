import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from interlock.embedded import Binaries, Cluster, account_for, find_binaries, within_reach
from interlock.embedded.install import movable_trees
from interlock.errors import BinariesMissing, DataDirectoryUnusable
from support.ordinary_user import run_as_ordinary_user

MakeCluster = Callable[..., Cluster]

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another user")

ORDINARY_USER = """
import sys
import tempfile
from pathlib import Path
from interlock.embedded import Cluster, find_binaries
from interlock.errors import InterlockError
cluster = Cluster(Path(sys.argv[1]), binaries=find_binaries(Path(sys.argv[2])))
try:
    with cluster.shared():
        print("running as", (cluster.root / "data").stat().st_uid)
except InterlockError as error:
    print(type(error).__name__, error)
"""


def version_query(cluster: Cluster) -> object:
    with psycopg.connect(cluster.url()) as connection:
        row = connection.execute("show server_version_num").fetchone()
        return int(row[0]) // 10000 if row else None


def test_an_ordinary_user_without_a_home_runs_it_as_himself(place: Path, binaries: Binaries) -> None:
    place.chmod(0o1777)

    assert run_as_ordinary_user(ORDINARY_USER, place / "cluster", binaries.bin_dir).startswith("running as ")


def test_a_directory_that_cannot_be_written_is_refused(place: Path, binaries: Binaries) -> None:
    (place / "read-only").mkdir()
    (place / "read-only").chmod(0o555)

    told = run_as_ordinary_user(ORDINARY_USER, place / "read-only" / "cluster", binaries.bin_dir)

    assert told.startswith("DataDirectoryUnusable")
    assert "Permission denied" in told
    assert "--data-dir" in told


@as_root
def test_the_cluster_of_another_user_is_refused(cluster: Cluster, binaries: Binaries) -> None:
    assert run_as_ordinary_user(ORDINARY_USER, cluster.root, binaries.bin_dir).startswith("DataDirectoryUnusable")


def test_a_directory_with_other_things_is_refused_and_left_alone(place: Path, binaries: Binaries) -> None:
    (place / "thesis.odt").write_text("mine")

    with pytest.raises(DataDirectoryUnusable, match=r"thesis\.odt"):
        Cluster(place, binaries=binaries).create()

    assert [path.name for path in place.iterdir()] == ["thesis.odt"]


def test_a_file_in_place_of_the_directory_is_refused(place: Path, binaries: Binaries) -> None:
    (place / "file").touch()

    with pytest.raises(DataDirectoryUnusable):
        Cluster(place / "file", binaries=binaries).create()


def test_data_of_another_major_version_are_refused_and_kept(copy_cluster: MakeCluster, binaries: Binaries) -> None:
    cluster = copy_cluster()
    version = cluster.root / "data" / "PG_VERSION"
    version.write_text("13\n")
    before = sorted(path.name for path in (cluster.root / "data").iterdir())

    for action in (cluster.create, cluster.start, cluster.attach):
        with pytest.raises(DataDirectoryUnusable, match=rf"PostgreSQL 13, .* PostgreSQL {binaries.version[0]}\."):
            action()

    assert version.read_text() == "13\n"
    assert sorted(path.name for path in (cluster.root / "data").iterdir()) == before


@as_root
def test_root_runs_it_as_a_user_that_is_given(place: Path, binaries: Binaries) -> None:
    cluster = Cluster(place / "cluster", binaries=binaries, run_as="nobody")

    with cluster.shared():
        assert (place / "cluster" / "data").owner() == "nobody"
        pid = cluster.pid()
        assert Path(f"/proc/{pid}").owner() == "nobody"

    # The user that created the data runs them, also without run_as.
    with Cluster(place / "cluster", binaries=binaries).shared():
        pass


@as_root
def test_a_directory_that_the_servers_user_cannot_reach_is_refused_and_not_opened(
    place: Path, binaries: Binaries
) -> None:
    (place / "closed").mkdir(mode=0o700)

    with pytest.raises(DataDirectoryUnusable, match=r"cannot enter .*/closed: .*--data-dir"):
        Cluster(place / "closed" / "cluster", binaries=binaries).create()

    assert (place / "closed").stat().st_mode & 0o777 == 0o700
    assert not list((place / "closed").iterdir())


@pytest.fixture(scope="module")
def closed_binaries(binaries: Binaries) -> Iterator[Binaries]:
    """An installation that can be moved, where only root can reach it."""
    try:
        base, trees = movable_trees(binaries.bin_dir)
    except BinariesMissing as error:
        pytest.skip(str(error))
    with tempfile.TemporaryDirectory(prefix="interlock-test-") as closed:
        for tree in trees:
            shutil.copytree(tree, closed / tree.relative_to(base), symlinks=True, dirs_exist_ok=True)
        Path(closed).chmod(0o700)
        yield find_binaries(closed / binaries.bin_dir.relative_to(base))


@as_root
def test_binaries_that_the_servers_user_cannot_reach_are_copied(place: Path, closed_binaries: Binaries) -> None:
    cluster = Cluster(place / "cluster", binaries=closed_binaries)

    with cluster.shared():
        assert version_query(cluster) == closed_binaries.version[0]
        assert list((place / "cluster").glob("postgresql-*.*"))

    cluster.delete()
    assert not (place / "cluster").exists()


@as_root
def test_binaries_are_copied_once_when_several_ask_at_once(place: Path, closed_binaries: Binaries) -> None:
    target = place / "copies"
    target.mkdir()
    target.chmod(0o755)

    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(within_reach, closed_binaries, account_for(), target) for _ in range(3)]
        copies = {future.result().bin_dir for future in asked}

    assert len(copies) == 1
    assert len(list(target.iterdir())) == 1


@as_root
def test_unreachable_binaries_that_cannot_be_moved_are_refused(place: Path, binaries: Binaries) -> None:
    bin_dir = place / "closed" / "bin"
    bin_dir.mkdir(parents=True)
    (place / "closed").chmod(0o700)
    for name in ("postgres", "initdb"):
        (bin_dir / name).symlink_to(binaries.bin_dir / name)

    with pytest.raises(BinariesMissing, match="cannot reach"):
        Cluster(place / "cluster", binaries=find_binaries(bin_dir)).create()
