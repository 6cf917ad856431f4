"""What a command does once the server has taken its request for a backup: says so, or waits for the end of the work."""

import json
from typing import TYPE_CHECKING

import click

from interlock.cli.failing import WorkFailed
from interlock.cli.instance.backup_telling import failure, outcome, short
from interlock.cli.instance.concluding import is_ended
from interlock.cli.instance.paths import backup_path
from interlock.cli.instance.telling import Facts
from interlock.errors import StillWorking

if TYPE_CHECKING:
    from interlock.cli.server.asking import Server


def conclude_backup(server: "Server", asked: Facts, *, wait: bool, timeout: float | None, as_json: bool) -> None:
    """Raises WorkFailed if it was waited for and came to nothing."""
    backup = _ended(server, asked, timeout) if wait else asked
    why = failure(asked, backup) if wait else ""
    if as_json:
        click.echo(json.dumps(backup))
    elif not why:
        click.echo(outcome(backup))
    if why:
        raise WorkFailed(why)


def _ended(server: "Server", asked: Facts, timeout: float | None) -> Facts:
    from interlock.cli.instance.following import pauses
    from interlock.cli.instance.patience import Deadline, Patience

    deadline = Deadline(timeout)
    patience = Patience(server, deadline)
    try:
        for pause in pauses():
            backup: Facts = patience.get(backup_path(asked["id"]))
            if is_ended(asked, backup):
                return backup
            if not deadline.pause(pause):
                raise StillWorking(
                    f"The backup {short(asked)} is {backup['state']} after {timeout:g} s: what was asked for goes on, "
                    "and `interlock instance backups` shows it."
                )
    except KeyboardInterrupt:
        click.echo(f"\ninterlock: What works on the backup {short(asked)} goes on.", err=True)
        raise
    raise AssertionError("pauses have no end")
