import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from interlock.embedded import Binaries, Cluster, find_binaries
from interlock.errors import EmbeddedError
from support.postgres import open_directory

MakeCluster = Callable[..., Cluster]
RunPython = Callable[..., "subprocess.Popen[str]"]


@contextmanager
def _place_for_clusters() -> Iterator[Path]:
    """Clusters that still run in it are stopped."""
    with open_directory("interlock-test-") as path:
        yield path
        for root in [path, *path.glob("**/control.lock")]:
            with suppress(EmbeddedError):
                Cluster(root.parent if root.name == "control.lock" else root).stop("immediate")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory for clusters."""
    with _place_for_clusters() as path:
        yield path


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    pg_bin = os.environ.get("INTERLOCK_PG_BIN")
    return find_binaries(Path(pg_bin) if pg_bin else None)


@pytest.fixture(scope="session")
def common_root(binaries: Binaries) -> Iterator[Path]:
    """The root of a created cluster that tests share, one after the other: creating one takes most of a second."""
    with _place_for_clusters() as path:
        Cluster(path / "common", binaries=binaries).create()
        yield path / "common"


@pytest.fixture
def make_cluster(common_root: Path, binaries: Binaries) -> Iterator[MakeCluster]:
    """The common cluster with options of your own; stopped, and with an empty log."""
    (common_root / "postgresql.log").unlink(missing_ok=True)
    yield lambda **options: Cluster(common_root, binaries=binaries, **options)
    Cluster(common_root, binaries=binaries).stop()


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> Cluster:
    return make_cluster()


@pytest.fixture
def copy_cluster(place: Path, common_root: Path, binaries: Binaries) -> MakeCluster:
    """A copy of the common cluster, for tests that spoil it or want several."""

    def copy(name: str = "copy", **options: Any) -> Cluster:
        subprocess.run(["cp", "-a", str(common_root), str(place / name)], check=True)
        return Cluster(place / name, binaries=binaries, **options)

    return copy


@pytest.fixture
def run_python(binaries: Binaries) -> Iterator[RunPython]:
    """Starts Python programs, given a root and the binaries, that talk with the test by standard input and output."""
    running: list[subprocess.Popen[str]] = []

    def run(program: str, root: Path) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", program, str(root), str(binaries.bin_dir)]
        running.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.communicate()
