"""``interlock instance wait``: waits for the end of work on an instance, or for a state of the instance."""

import json
from typing import Any

import click

from interlock.cli.duration import DURATION, METAVAR
from interlock.cli.failure import WorkFailed
from interlock.cli.instance.presentation import INSTANCES, name_of, outcome, status
from interlock.cli.output import json_option
from interlock.cli.record.api import path_of
from interlock.cli.record.kind import Facts, error_text
from interlock.cli.server.options import server_for, server_options
from interlock.errors import ServerRefused

_WANTED = ["running", "stopped", "deleted", "failed", "healthy", "unhealthy"]


@click.command()
@click.argument("name")
@click.option(
    "--for",
    "wanted",
    type=click.Choice(_WANTED),
    help="The state to wait for. [default: any state, once all work has ended]",
)
@click.option("--timeout", type=DURATION, metavar=METAVAR, help="Wait at most this long. [default: no limit]")
@json_option
@server_options
def wait(name: str, wanted: str | None, timeout: float | None, as_json: bool, **flags: Any) -> None:
    """Wait for the end of the work on the instance NAME.

    With --for, wait until the instance is in that state. Exits with 0 after a successful wait; with 1, and the error,
    if the work failed or the instance cannot reach the state any more; with 75 if --timeout has passed.
    """
    from interlock.cli.record.deadline import Deadline
    from interlock.cli.record.progress import ProgressLines, follow

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
    failure = wait_failure(found, wanted)
    if as_json:
        click.echo(json.dumps(found))
    elif not failure:
        click.echo(outcome(found))
    if failure:
        raise WorkFailed(failure)


def is_over(instance: Facts, wanted: str | None) -> bool:
    """True if the instance has reached the wanted state, or cannot reach it any more."""
    if wanted is None:
        return not instance["working"]
    return _is(instance, wanted) or (not instance["working"] and instance["state"] in ("failed", "deleted"))


def wait_failure(instance: Facts, wanted: str | None) -> str:
    """Returns the reason why the instance is not in the wanted state; empty if it is in that state."""
    if not instance["error"] if wanted is None else _is(instance, wanted):
        return ""
    why = error_text(instance)
    return f"{name_of(instance)} is {status(instance)}{': ' + why if why else '.'}"


def _is(instance: Facts, wanted: str) -> bool:
    if wanted in ("healthy", "unhealthy"):
        return bool(instance["state"] == "running" and instance["health"] == wanted)
    return bool(instance["state"] == wanted)
