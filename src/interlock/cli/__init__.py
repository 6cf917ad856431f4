"""The command line."""

# ruff: noqa: E402

import gc
import io
import sys

gc.set_threshold(100_000)  # first of all: the imports of a command make 40 thousand objects, and no garbage

import click

from interlock import __version__
from interlock.cli.lazy import LazyGroup

_COMMANDS = {
    "claim": "interlock.cli.claim:claim",
    "doctor": "interlock.cli.doctor:doctor",
    "elect": "interlock.cli.elect:elect",
    "env": "interlock.cli.env:env",
    "every": "interlock.cli.every:every",
    "gate": "interlock.cli.gate:gate",
    "instance": "interlock.cli.instance:instance",
    "key": "interlock.cli.key:key",
    "lease": "interlock.cli.lease:lease",
    "lock": "interlock.cli.lock:lock",
    "members": "interlock.cli.members:members",
    "once": "interlock.cli.once:once",
    "orchestration": "interlock.cli.orchestration:orchestration",
    "schema": "interlock.cli.schema:schema",
    "semaphore": "interlock.cli.semaphore:semaphore",
    "store": "interlock.cli.store:store",
    "up": "interlock.cli.up:up",
    "why": "interlock.cli.lease:show",
}


@click.group(
    cls=LazyGroup,
    homes=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="interlock")
def main() -> None:
    """Keeps the replicas of a service from doing the same work at the same time, on the database that they have."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() != "utf-8":
        sys.stdout.reconfigure(errors="backslashreplace")  # a character that the encoding lacks is no error
