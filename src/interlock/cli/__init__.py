"""The command line. Commands are imported when they are called: `interlock` sits in scripts, so its start counts."""

from importlib import import_module

import click

from interlock import __version__
from interlock.cli.failing import InterlockGroup

_COMMANDS = {
    "claim": "interlock.cli.claim:claim",
    "doctor": "interlock.cli.doctor:doctor",
    "elect": "interlock.cli.elect:elect",
    "every": "interlock.cli.every:every",
    "gate": "interlock.cli.gate:gate",
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


class _LazyGroup(InterlockGroup):
    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="interlock")
def main() -> None:
    """Keeps the replicas of a service out of each other's way, on the database they already have."""
