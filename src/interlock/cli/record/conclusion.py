"""The end of a command whose request the server has accepted: the command prints the record, or waits for the work."""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from interlock.cli.duration import DURATION, METAVAR
from interlock.cli.failure import WorkFailed
from interlock.cli.record.kind import Facts, Kind, error_text

if TYPE_CHECKING:
    from interlock.cli.server.client import ControlPlane

F = TypeVar("F", bound=Callable[..., Any])


def wait_options(command: F) -> F:
    """Add --wait and --timeout. The command gets `wait` and `timeout`."""
    command = click.option(
        "--timeout",
        type=DURATION,
        metavar=METAVAR,
        callback=_check_timeout,
        help="With --wait: wait at most this long. After that, exits with 75, and the work goes on.",
    )(command)
    return click.option("--wait", is_flag=True, is_eager=True, help="Wait until the work ends, and show its progress.")(
        command
    )


def _check_timeout(context: click.Context, option: click.Parameter, timeout: float | None) -> float | None:
    """Refuse --timeout without --wait: the command would not wait."""
    if timeout is not None and not context.params.get("wait"):
        raise click.UsageError("--timeout works only with --wait: add --wait.", context)
    return timeout


def conclude(
    server: "ControlPlane",
    kind: Kind,
    requested: Facts,
    *,
    wait: bool,
    timeout: float | None,
    as_json: bool,
    failure: Callable[[Kind, Facts, Facts], str] | None = None,
) -> None:
    """Print the record, with `wait` after its work has ended. Raises WorkFailed if the command waited and work failed.

    `requested` is the record in the answer to the request. `failure` is a function that returns the reason of a
    failure; None means `work_failure`.
    """
    [record] = wait_for_end(server, kind, [requested], timeout) if wait else [requested]
    why = (failure or work_failure)(kind, requested, record) if wait else ""
    if as_json:
        click.echo(json.dumps(record))
    elif not why:
        click.echo(kind.outcome(record))
    if why:
        raise WorkFailed(why)


def wait_for_end(server: "ControlPlane", kind: Kind, requested: Sequence[Facts], timeout: float | None) -> list[Facts]:
    """Wait until the requested work on each record has ended. Returns the records as they are then."""
    from interlock.cli.record.deadline import Deadline
    from interlock.cli.record.progress import ProgressLines, follow

    deadline = Deadline(timeout)
    with ProgressLines() as progress:
        return [
            follow(server, kind, one, lambda now, one=one: has_ended(one, now), deadline, progress)  # type: ignore[misc]
            for one in requested
        ]


def has_ended(requested: Facts, now: Facts) -> bool:
    return not now["working"] or now["orchestration"] != requested["orchestration"]


def cancel_failure(kind: Kind, requested: Facts, now: Facts) -> str:
    """Returns the reason why the work was not cancelled; empty if the work was cancelled."""
    if now["error"] and now["error"]["code"] == "cancelled":
        return ""
    return f"{kind.label(now)} is {kind.status(now)}: its work ended before it could be cancelled."


def work_failure(kind: Kind, requested: Facts, now: Facts) -> str:
    """Returns the reason why the requested work failed; empty if the work succeeded."""
    if now["orchestration"] != requested["orchestration"]:
        return f"{kind.label(now)} is {now['state']} now, because another request has replaced this one."
    return f"{kind.label(now)} is {now['state']}: {error_text(now)}" if now["error"] else ""
