"""A small file system with a directory for instances."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.components import lacking
from support.local_instances import end_all, place_for_instances


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    if os.geteuid() != 0:
        lacking("only root can mount a small disk")
    with place_for_instances() as place:
        (place / "disk").mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", place / "disk"],
            capture_output=True,
            text=True,
            check=False,
        )
        if mounted.returncode:
            lacking(f"no small disk can be mounted here: {mounted.stderr.strip()}")
        try:
            yield place / "disk"
        finally:
            end_all(place)
            subprocess.run(["umount", "--lazy", place / "disk"], check=True)
