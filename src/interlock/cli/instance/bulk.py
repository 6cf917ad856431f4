"""Many instances in one request, and the files that name them. Each is taken or refused for itself."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.failure import WorkFailed
from interlock.cli.instance.presentation import INSTANCES, outcome
from interlock.cli.output import escaped
from interlock.cli.record.conclusion import ended, failed
from interlock.cli.record.kind import Facts
from interlock.cli.server.refusals import sentence
from interlock.cli.terminal import print_aside
from interlock.errors import ConfigurationError, InterlockError

if TYPE_CHECKING:
    from interlock.cli.server.client import ControlPlane

_MOST = 50
"""In one request."""


def in_bulk(
    server: "ControlPlane", verb: str, wanted: Sequence[Any], *, wait: bool, timeout: float | None, as_json: bool
) -> None:
    """Raises WorkFailed if not all went well; what came of each is told before."""
    items, cut_short = _asked(server, verb, wanted)
    for item in items:
        if "instance" not in item:  # said before anything is waited for: a wait may be cut short
            print_aside(f"{escaped(str(item['name']))}: {sentence(item['problem'])}")
    if cut_short:
        print_aside(f"The request for the last {len(wanted) - len(items)} failed: {cut_short}")
    taken = [item for item in items if "instance" in item]
    failures = _follow(server, taken, timeout) if wait else []
    if as_json:
        click.echo(json.dumps({"items": items}))
    else:
        for item in taken:
            click.echo(outcome(item["instance"]))
    if undone := len(wanted) - len(taken) + len(failures):
        raise WorkFailed("\ninterlock: ".join([*failures, f"{undone} of {len(wanted)} did not succeed."]))


def _asked(
    server: "ControlPlane", verb: str, wanted: Sequence[Any]
) -> tuple[list[dict[str, Any]], InterlockError | None]:
    """What came of each, and what kept us from asking for all. Raises that if nothing was taken before it."""
    items: list[dict[str, Any]] = []
    for first in range(0, len(wanted), _MOST):
        body = {"instances": list(wanted[first : first + _MOST])}
        try:
            items += server.change("POST", f"/instances/bulk-{verb}", body)["items"]
        except InterlockError as error:
            if first == 0:
                raise
            return items, error
    return items, None


def _follow(server: "ControlPlane", taken: list[dict[str, Any]], timeout: float | None) -> list[str]:
    asked: list[Facts] = [item["instance"] for item in taken]
    found = ended(server, INSTANCES, asked, timeout)
    for item, instance in zip(taken, found, strict=True):
        item["instance"] = instance
    return [why for one, now in zip(asked, found, strict=True) if (why := failed(INSTANCES, one, now))]


def wanted_in(path: Path) -> list[dict[str, Any]]:
    """As the API takes them; what is wrong with each is for the server to say."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        found = _toml(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise ConfigurationError(f"The file {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise ConfigurationError(f"The file {path} is not {kind}: {error}.") from error
    listed = found.get("instances") if isinstance(found, dict) else found
    if not isinstance(listed, list) or not listed or not all(isinstance(one, dict) and "name" in one for one in listed):
        raise ConfigurationError(
            f"The file {path} names no instances: write a list of objects with a name in JSON, "
            "or [[instances]] tables in TOML."
        )
    try:
        json.dumps(listed)
    except TypeError as error:  # TOML knows dates and times, and no instance has one
        raise ConfigurationError(f"The file {path} holds a date or a time: put it into quotes.") from error
    return listed


def _toml(text: str) -> Any:
    import tomllib

    return tomllib.loads(text)
