"""Durations of operations on an instance, beside PostgreSQL's own, in turns. They are measured, and not judged."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from interlock.embedded import Binaries, account_for, find_binaries, within_reach
from interlock.embedded.files import make_private
from interlock.embedded.postmaster import read_postmaster
from interlock.embedded.processes import has_ended, run, spawn_daemon, wait_until
from interlock.instances.drivers.local import LocalDriver
from support.local_instances import PG_BIN, new_spec

pytestmark = pytest.mark.exhaustive

ROUNDS = 3


def bare(binaries: Binaries, data: Path) -> float:
    """Seconds from nothing to a server that accepts connections, on a Unix socket."""
    account = account_for()
    begun_at = time.monotonic()
    make_private(data, account)
    status, _, complaint = run([binaries.initdb, "-D", data, "--locale=C", "--auth=trust", "--data-checksums"], account)
    assert status == 0, complaint
    command: list[str | Path] = [
        binaries.postgres,
        "-D",
        data,
        "-c",
        "listen_addresses=",
        "-c",
        f"unix_socket_directories={data}",
    ]
    pid = spawn_daemon(command, account, data.with_suffix(".log"))
    try:
        assert wait_until(lambda: (found := read_postmaster(data)) is not None and found.is_ready, timeout=50)
        return time.monotonic() - begun_at
    finally:
        os.kill(pid, signal.SIGQUIT)
        assert wait_until(lambda: has_ended(pid), timeout=50)


async def test_from_nothing_to_running(
    root: Path, driver: LocalDriver, record_property: Callable[[str, object], None]
) -> None:
    binaries = within_reach(find_binaries(PG_BIN), account_for(), root.parent)
    alone, ours = [], []
    for number in range(ROUNDS):
        alone.append(bare(binaries, root.parent / f"bare-{number}"))
        spec = new_spec()
        begun_at = time.monotonic()
        await driver.provision(spec)
        ours.append(time.monotonic() - begun_at)
        assert (await driver.observe(spec.id)).state == "running"
    told = f"an instance from nothing to running: {median(ours):.2f} s, bare initdb and start {median(alone):.2f} s"
    record_property("figure", told)
