"""``interlock instance wait``."""

import json
from typing import Any

import click

from interlock.cli.duration import DURATION, METAVAR
from interlock.cli.failure import WorkFailed
from interlock.cli.instance.presentation import INSTANCES, name_of, outcome, standing
from interlock.cli.output import json_option
from interlock.cli.record.kind import Facts, trouble
from interlock.cli.record.paths import path_of
from interlock.cli.server.options import server_for, server_options
from interlock.errors import ServerRefused

_WANTED = ["running", "stopped", "deleted", "failed", "healthy", "unhealthy"]


@click.command()
@click.argument("name")
@click.option(
    "--for",
    "wanted",
    type=click.Choice(_WANTED),
    help="Until it is that. [default: until nothing works on it any more]",
)
@click.option("--timeout", type=DURATION, metavar=METAVAR, help="At most this long. [default: no limit]")
@json_option
@server_options
def wait(name: str, wanted: str | None, timeout: float | None, as_json: bool, **flags: Any) -> None:
    """Wait until the instance NAME has come to rest, or to what is asked for.

    Exits with 0 if it has; with 1, and the error, if what worked on it failed or it cannot come to that any more; with
    75 if that takes longer than --timeout.
    """
    from interlock.cli.record.history import follow
    from interlock.cli.record.patience import Deadline
    from interlock.cli.record.progress import ProgressLines

    deadline = Deadline(timeout)
    server = server_for(flags).within(deadline.at)
    try:
        found = server.get(path_of(INSTANCES.path, name))
    except ServerRefused as error:
        if wanted == "deleted" and error.code == "instance_unknown":
            click.echo(json.dumps(None) if as_json else f"There is no instance {name!r} any more.")
            return
        raise
    with ProgressLines() as progress:
        found = follow(server, INSTANCES, found, lambda now: is_over(now, wanted), deadline, progress)
    failure = missed(found, wanted)
    if as_json:
        click.echo(json.dumps(found))
    elif not failure:
        click.echo(outcome(found))
    if failure:
        raise WorkFailed(failure)


def is_over(instance: Facts, wanted: str | None) -> bool:
    """It has come to what is wanted, or cannot come to it any more."""
    if wanted is None:
        return not instance["working"]
    return _is(instance, wanted) or (not instance["working"] and instance["state"] in ("failed", "deleted"))


def missed(instance: Facts, wanted: str | None) -> str:
    """Why it is not what was waited for; empty if it is."""
    if not instance["error"] if wanted is None else _is(instance, wanted):
        return ""
    why = trouble(instance)
    return f"{name_of(instance)} is {standing(instance)}{': ' + why if why else '.'}"


def _is(instance: Facts, wanted: str) -> bool:
    if wanted in ("healthy", "unhealthy"):
        return bool(instance["state"] == "running" and instance["health"] == wanted)
    return bool(instance["state"] == wanted)
