"""Processes that are not PostgreSQL and run as the same system user as its servers."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock.embedded.accounts import account_for


def give_process_id(data: Path, pid: int) -> None:
    """Simulate that the process id of a dead server on these data was given to another process."""
    told = data / "postmaster.pid"
    for file in (told, *Path(told.read_text().splitlines()[4]).glob(".s.PGSQL.*.lock")):
        file.write_text(f"{pid}\n" + file.read_text().partition("\n")[2])


@contextmanager
def process_of_the_servers_user() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that does nothing until the end of the test."""
    account = account_for()
    process = subprocess.Popen(
        ["cat"],
        stdin=subprocess.PIPE,
        cwd="/",
        user=account.switch_user,
        group=account.switch_group,
        extra_groups=account.switch_groups,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
