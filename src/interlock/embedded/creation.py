"""Making a cluster's data, whole or not at all."""

import secrets
import shutil
from pathlib import Path

from interlock.embedded.accounts import Account
from interlock.embedded.address import SUPERUSER
from interlock.embedded.binaries import Binaries
from interlock.embedded.files import append, make_private, sync_directory, write_whole
from interlock.embedded.layout import Layout
from interlock.embedded.processes import run
from interlock.errors import ClusterFailed

_LOCALES = ("C.UTF-8", "C")
_TIMEOUT = 300.0


def make_data(layout: Layout, binaries: Binaries, account: Account, control: int) -> None:
    """Make `layout.data` with a new superuser password. It is not there yet, and nobody else is at it.

    It appears by one rename at the end; what a crash before that leaves is cleared away here the next time. initdb
    outlives us if we are killed, so it is given the control lock: who comes next waits until it has ended.
    """
    clear_leftovers(layout)
    write_whole(layout.password, secrets.token_urlsafe(32).encode(), account)
    _initdb(layout, binaries, account, control)
    append(layout.fresh_data / "postgresql.conf", f"\ninclude_if_exists = '../{layout.settings.name}'\n")
    layout.fresh_data.rename(layout.data)
    sync_directory(layout.root)


def clear_leftovers(layout: Layout) -> None:
    """Remove data that a crash left half made or half deleted."""
    for path in (layout.fresh_data, layout.deleted_data):
        if path.exists():
            shutil.rmtree(path)


def _initdb(layout: Layout, binaries: Binaries, account: Account, control: int) -> None:
    for locale in _LOCALES:
        clear_leftovers(layout)
        make_private(layout.fresh_data, account)
        command = _command(layout, binaries.initdb, locale)
        status, said, complaint = run(command, account, timeout=_TIMEOUT, keeps=[control])
        if status == 0:
            return
        if "locale" not in complaint:
            break
    reason = next((line for line in complaint.splitlines() if "error:" in line), f"exit status {status}")
    raise ClusterFailed(
        f"PostgreSQL did not initialise in {layout.root} ({reason}): correct that, and try again.",
        log_tail=f"{said}{complaint}",
    )


def _command(layout: Layout, initdb: Path, locale: str) -> list[str | Path]:
    return [
        initdb,
        f"--pgdata={layout.fresh_data}",
        f"--username={SUPERUSER}",
        f"--pwfile={layout.password}",
        "--auth-local=scram-sha-256",
        "--auth-host=scram-sha-256",
        "--encoding=UTF8",
        f"--locale={locale}",
        "--lc-messages=C",
        "--data-checksums",
        "--no-instructions",
    ]
