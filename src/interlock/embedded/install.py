"""Copies binaries to a directory that the cluster's user can reach."""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from interlock.embedded.accounts import Account
from interlock.embedded.binaries import Binaries, inspect_binaries
from interlock.embedded.processes import run
from interlock.errors import BinariesMissing, ClusterFailed
from interlock.logs import events

log = events(__name__)


def within_reach(binaries: Binaries, account: Account, directory: Path) -> Binaries:
    """Returns `binaries` if `account` can run them, else a copy of them in `directory`, which is made once.

    `directory` has to exist, and `account` has to be able to reach it. Of two concurrent callers, one copies and the
    other waits. Raises BinariesMissing if the binaries cannot be run from another place.
    """
    if account.is_us or _runs_for(account, binaries):
        return binaries
    return replace(binaries, bin_dir=_copy(binaries, directory))


def _runs_for(account: Account, binaries: Binaries) -> bool:
    try:
        return all(run([tool, "--version"], account)[0] == 0 for tool in (binaries.postgres, binaries.initdb))
    except ClusterFailed as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in (errno.EACCES, errno.ENOENT):
            return False
        raise


def _copy(binaries: Binaries, directory: Path) -> Path:
    base, trees = movable_trees(binaries.bin_dir)
    target = directory / "postgresql-{}.{}".format(*binaries.version)
    with _only_one_in(directory):
        if not target.exists():
            _copy_trees(base, trees, target)
            log.info("binaries.copied", extra={"source": str(binaries.bin_dir), "target": str(target)})
    return inspect_binaries(target / binaries.bin_dir.relative_to(base)).bin_dir


def movable_trees(bin_dir: Path) -> tuple[Path, tuple[Path, ...]]:
    """Returns the base directory, and the trees below it to copy. Their programs find their files by relative paths.

    Raises BinariesMissing for an installation that does not keep all its files in one place.
    """
    install = bin_dir.parent
    if not any((install / share / "postgres.bki").exists() for share in ("share", "share/postgresql")):
        raise BinariesMissing(
            f"The user that has to run PostgreSQL cannot reach {bin_dir}: set INTERLOCK_PG_BIN to a directory that "
            "this user can reach."
        )
    package = install.parent
    libraries = package.with_name(f"{package.name}.libs")  # where auditwheel puts them, beside the package
    return (package.parent, (install, libraries)) if libraries.is_dir() else (install, (install,))


def _copy_trees(base: Path, trees: tuple[Path, ...], target: Path) -> None:
    fresh = target.with_name(f"{target.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)  # left by a process that was killed while it copied
    for tree in trees:
        shutil.copytree(tree, fresh / tree.relative_to(base), symlinks=True, dirs_exist_ok=True)
    _make_readable(fresh)
    fresh.rename(target)


def _make_readable(top: Path) -> None:
    for place, _, names in os.walk(top):
        Path(place).chmod(0o755)
        for file in (Path(place) / name for name in names):
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)


@contextmanager
def _only_one_in(directory: Path) -> Iterator[None]:
    handle = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
