"""What a command does once the server has taken its request: says so, or waits for the end of the work."""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from interlock.cli.duration import DURATION, METAVAR
from interlock.cli.failure import WorkFailed
from interlock.cli.record.kind import Facts, Kind, trouble

if TYPE_CHECKING:
    from interlock.cli.server.client import ControlPlane

F = TypeVar("F", bound=Callable[..., Any])


def wait_options(command: F) -> F:
    """The command gets `wait` and `timeout`."""
    command = click.option(
        "--timeout",
        type=DURATION,
        metavar=METAVAR,
        callback=_for_a_wait,
        help="With --wait: at most this long. Exits with 75 then, and the work goes on.",
    )(command)
    return click.option("--wait", is_flag=True, is_eager=True, help="Until it is done, telling how far it is.")(command)


def _for_a_wait(context: click.Context, option: click.Parameter, timeout: float | None) -> float | None:
    """Whoever says how long to wait believes that it is waited."""
    if timeout is not None and not context.params.get("wait"):
        raise click.UsageError("--timeout is how long to --wait: say both.", context)
    return timeout


def conclude(
    server: "ControlPlane",
    kind: Kind,
    asked: Facts,
    *,
    wait: bool,
    timeout: float | None,
    as_json: bool,
    why_not: Callable[[Kind, Facts, Facts], str] | None = None,
) -> None:
    """Of one request. Raises WorkFailed if it was waited for and came to nothing: `why_not`, instead of `failed`."""
    [record] = ended(server, kind, [asked], timeout) if wait else [asked]
    failure = (why_not or failed)(kind, asked, record) if wait else ""
    if as_json:
        click.echo(json.dumps(record))
    elif not failure:
        click.echo(kind.outcome(record))
    if failure:
        raise WorkFailed(failure)


def ended(server: "ControlPlane", kind: Kind, asked: Sequence[Facts], timeout: float | None) -> list[Facts]:
    """Each as it is when nothing that was asked for works on it any more."""
    from interlock.cli.record.history import follow
    from interlock.cli.record.patience import Deadline
    from interlock.cli.record.progress import ProgressLines

    deadline = Deadline(timeout)
    with ProgressLines() as progress:
        return [
            follow(server, kind, one, lambda now, one=one: is_ended(one, now), deadline, progress)  # type: ignore[misc]
            for one in asked
        ]


def is_ended(asked: Facts, now: Facts) -> bool:
    return not now["working"] or now["orchestration"] != asked["orchestration"]


def not_cancelled(kind: Kind, asked: Facts, now: Facts) -> str:
    """Why something was not cancelled; empty if it was."""
    if now["error"] and now["error"]["code"] == "cancelled":
        return ""
    return f"{kind.label(now)} is {kind.standing(now)}: it came to its end before it could be cancelled."


def failed(kind: Kind, asked: Facts, now: Facts) -> str:
    """Why what was asked for did not come to its end; empty if it did."""
    if now["orchestration"] != asked["orchestration"]:
        return f"{kind.label(now)}: something else was asked for meanwhile, and it is {now['state']} now."
    return f"{kind.label(now)} is {now['state']}: {trouble(now)}" if now["error"] else ""
