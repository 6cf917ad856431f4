"""The end of a command after the server has accepted its request: it prints the record, or waits for the work."""

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
    """The command gets `wait` and `timeout`."""
    command = click.option(
        "--timeout",
        type=DURATION,
        metavar=METAVAR,
        callback=_check_timeout,
        help="With --wait: wait at most this long. Exits with 75 then, and the work goes on.",
    )(command)
    return click.option("--wait", is_flag=True, is_eager=True, help="Wait until the work ends, and show its progress.")(
        command
    )


def _check_timeout(context: click.Context, option: click.Parameter, timeout: float | None) -> float | None:
    """Refuse --timeout without --wait: the command would not wait."""
    if timeout is not None and not context.params.get("wait"):
        raise click.UsageError("--timeout limits --wait: use both.", context)
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
    """`requested` is the record in the answer to the request. Raises WorkFailed if the command waited and work failed.

    `failure` returns the reason; by default it is `work_failure`.
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
    """Returns each record once its requested work has ended."""
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
    """The reason why the work was not cancelled; empty if it was."""
    if now["error"] and now["error"]["code"] == "cancelled":
        return ""
    return f"{kind.label(now)} is {kind.status(now)}: its work ended before it could be cancelled."


def work_failure(kind: Kind, requested: Facts, now: Facts) -> str:
    """The reason why the requested work failed; empty if it succeeded."""
    if now["orchestration"] != requested["orchestration"]:
        return f"{kind.label(now)}: another request has replaced this one, and it is {now['state']} now."
    return f"{kind.label(now)} is {now['state']}: {error_text(now)}" if now["error"] else ""
