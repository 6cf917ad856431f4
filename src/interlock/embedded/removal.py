"""Removing a cluster from this machine. Whoever calls this holds its control lock, and its server has stopped."""

import shutil

from interlock.embedded.accounts import Account
from interlock.embedded.creation import clear_leftovers
from interlock.embedded.layout import Layout
from interlock.logs import events

log = events(__name__)


def remove_everything(layout: Layout, account: Account) -> None:
    """Remove what a cluster put on this machine."""
    remove_outside(layout, account)
    if layout.data.exists():  # in one step, so that a crash leaves no part of it to be taken for the whole
        layout.data.rename(layout.deleted_data)
    clear_leftovers(layout)
    remove_own(layout)


def remove_own(layout: Layout) -> None:
    """Remove what is in the root, and that too unless it is a mount or holds something else."""
    for path in layout.own():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    try:
        layout.root.rmdir()
    except OSError as error:
        log.info("cluster.root_kept", extra={"root": str(layout.root), "reason": str(error)})


def remove_outside(layout: Layout, account: Account) -> None:
    """Remove what a cluster has elsewhere, because its root has too long a path."""
    sockets = layout.sockets(account)
    if sockets.is_dir() and not sockets.is_relative_to(layout.root):
        shutil.rmtree(sockets)
