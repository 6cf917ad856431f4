"""The machine of the run: processor, memory and disk, without its name."""

import os
import platform
import time
from pathlib import Path
from statistics import median

from benchmarks.servers.disk import file_system


def facts(directory: Path, postgres_version: str) -> dict[str, str]:
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores for clients and servers together",
        "memory": f"{_memory():.0f} GiB",
        "disk": f"{file_system(directory) or 'unknown file system'}, fdatasync p50 {_sync_time(directory):.2f} ms",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "Python": platform.python_version(),
        "PostgreSQL": f"{postgres_version}, fsync and synchronous_commit on",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _memory() -> float:
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) / 2**30


def _sync_time(directory: Path) -> float:
    """Milliseconds to write 8 KB to the disk durably, as the write-ahead log does."""
    times = []
    with (directory / "sync").open("wb", buffering=0) as file:
        file.write(bytes(2**20))
        os.fsync(file.fileno())
        for place in range(100):
            file.seek(place * 8192)
            file.write(bytes(8192))
            begun_at = time.perf_counter()
            os.fdatasync(file.fileno()) if hasattr(os, "fdatasync") else os.fsync(file.fileno())
            times.append((time.perf_counter() - begun_at) * 1e3)
    return median(times)
