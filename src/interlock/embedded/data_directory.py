"""Creates a cluster's data, whole or not at all, and deletes a cluster.

The caller has to hold the cluster's control lock.
"""

import secrets
import shutil
from pathlib import Path

from interlock.embedded.accounts import Account
from interlock.embedded.address import SUPERUSER
from interlock.embedded.binaries import Binaries
from interlock.embedded.files import append, make_private, sync_directory, write_whole
from interlock.embedded.paths import ClusterPaths
from interlock.embedded.processes import run
from interlock.errors import ClusterFailed
from interlock.logs import events

log = events(__name__)

_LOCALES = ("C.UTF-8", "C")
_TIMEOUT = 300.0


def make_data(paths: ClusterPaths, binaries: Binaries, account: Account, control: int) -> None:
    """Make `paths.data`, which must not exist yet, with a new superuser password.

    The data appear by one rename at the end. If a crash leaves incomplete data, the next call removes them. If this
    process is killed, initdb goes on, so initdb inherits the control lock: the next process waits until initdb has
    ended.
    """
    clear_leftovers(paths)
    write_whole(paths.password, secrets.token_urlsafe(32).encode(), account)
    _initdb(paths, binaries, account, control)
    append(paths.fresh_data / "postgresql.conf", f"\ninclude_if_exists = '../{paths.settings.name}'\n")
    paths.fresh_data.rename(paths.data)
    sync_directory(paths.root)


def clear_leftovers(paths: ClusterPaths) -> None:
    """Remove data that a crash left half made or half deleted."""
    for path in (paths.fresh_data, paths.deleted_data):
        if path.exists():
            shutil.rmtree(path)


def _initdb(paths: ClusterPaths, binaries: Binaries, account: Account, control: int) -> None:
    for locale in _LOCALES:
        clear_leftovers(paths)
        make_private(paths.fresh_data, account)
        command = _command(paths, binaries.initdb, locale)
        status, said, complaint = run(command, account, timeout=_TIMEOUT, keeps=[control])
        if status == 0:
            return
        if "locale" not in complaint:
            break
    reason = next((line for line in complaint.splitlines() if "error:" in line), f"exit status {status}")
    raise ClusterFailed(
        f"PostgreSQL did not initialise its data in {paths.root} ({reason}): correct the error, and try again.",
        log_tail=f"{said}{complaint}",
    )


def _command(paths: ClusterPaths, initdb: Path, locale: str) -> list[str | Path]:
    return [
        initdb,
        f"--pgdata={paths.fresh_data}",
        f"--username={SUPERUSER}",
        f"--pwfile={paths.password}",
        "--auth-local=scram-sha-256",
        "--auth-host=scram-sha-256",
        "--encoding=UTF8",
        f"--locale={locale}",
        "--lc-messages=C",
        "--data-checksums",
        "--no-instructions",
    ]


def delete_cluster(paths: ClusterPaths, account: Account) -> None:
    """Delete everything that a cluster put on this machine. The cluster's server must have stopped."""
    delete_sockets(paths, account)
    if paths.data.exists():  # in one step, so that after a crash no part of it is taken for the whole
        paths.data.rename(paths.deleted_data)
    clear_leftovers(paths)
    delete_root(paths)


def delete_root(paths: ClusterPaths) -> None:
    """Delete the cluster's files in the root, and the root unless it is a mount or holds other files."""
    for path in paths.own():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    try:
        paths.root.rmdir()
    except OSError as error:
        log.info("cluster.root_kept", extra={"root": str(paths.root), "reason": str(error)})


def delete_sockets(paths: ClusterPaths, account: Account) -> None:
    """Delete the directory of the sockets, if it is outside of the root because the root's path cannot be used."""
    sockets = paths.sockets(account)
    if sockets.is_dir() and not sockets.is_relative_to(paths.root):
        shutil.rmtree(sockets)
