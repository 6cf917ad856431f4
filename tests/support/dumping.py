"""Everything that is in a database, as `pg_dump` writes it."""

import os
import subprocess
from pathlib import Path

from interlock.embedded import find_binaries
from support.components import required


def dumped(url: str, *options: str) -> str:
    pg_bin = os.environ.get("INTERLOCK_PG_BIN")
    own = find_binaries(Path(pg_bin) if pg_bin else None).bin_dir / "pg_dump"
    program = own if own.exists() else required("pg_dump", package="postgresql-client")
    return subprocess.run([str(program), url, *options], capture_output=True, text=True, check=True).stdout
