"""Finds PostgreSQL's programs for dumping and restoring, also on machines without a server."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from interlock.embedded.binaries import program_version, system_directories, wheel_directories
from interlock.errors import BinariesMissing
from interlock.logs import events

log = events(__name__)

_NEEDED = ("pg_dump", "pg_restore")


@dataclass(frozen=True)
class Clients:
    bin_dir: Path
    version: tuple[int, int]

    @property
    def pg_dump(self) -> Path:
        return self.bin_dir / "pg_dump"

    @property
    def pg_restore(self) -> Path:
        return self.bin_dir / "pg_restore"


def clients_for(major: int, pg_bin: Path | None = None) -> Clients:
    """Returns the programs of the lowest major version that is at least `major`.

    A newer version is worse, because an older server may not read its dumps. Among programs of one version, `pg_bin`
    is preferred. Raises BinariesMissing if no programs are found.
    """
    fitting = [found for found in _all(pg_bin) if found.version[0] >= major]
    if not fitting:
        raise BinariesMissing(
            f"There is no pg_dump with its pg_restore for PostgreSQL {major} on this machine: install "
            f"postgresql-client-{major}, or set INTERLOCK_PG_BIN to the directory of a pg_dump that is not older."
        )
    return min(fitting, key=lambda found: found.version[0])


def _all(pg_bin: Path | None) -> Iterator[Clients]:
    for bin_dir in dict.fromkeys(_directories(pg_bin)):
        if not all(os.access(bin_dir / name, os.X_OK) for name in _NEEDED):
            continue
        try:
            yield Clients(bin_dir, max(program_version(bin_dir / name) for name in _NEEDED))
        except BinariesMissing as error:
            log.debug("binaries.skipped", extra={"bin_dir": str(bin_dir), "reason": str(error)})


def _directories(pg_bin: Path | None) -> Iterator[Path]:
    if pg_bin is not None:
        yield pg_bin
    yield from wheel_directories()
    yield from system_directories()
    # Debian's is a script that chooses among versions by itself.
    if (on_path := shutil.which("pg_dump")) and (real := Path(on_path).resolve()).name == "pg_dump":
        yield real.parent
