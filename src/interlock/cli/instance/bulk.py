"""Requests for many instances, and the files that list them. The server accepts or refuses each instance on its own."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.failure import WorkFailed
from interlock.cli.instance.presentation import INSTANCES, outcome
from interlock.cli.output import escaped
from interlock.cli.record.conclusion import wait_for_end, work_failure
from interlock.cli.record.kind import Facts
from interlock.cli.server.problems import problem_text
from interlock.cli.terminal import print_aside
from interlock.errors import ConfigurationError, InterlockError

if TYPE_CHECKING:
    from interlock.cli.server.client import ControlPlane

_MOST = 50
"""The number of instances in one request."""


def in_bulk(
    server: "ControlPlane", verb: str, wanted: Sequence[Any], *, wait: bool, timeout: float | None, as_json: bool
) -> None:
    """Send the request for all instances, and print the result for each. Raises WorkFailed if one of them failed."""
    items, interruption = _send(server, verb, wanted)
    for item in items:
        if "instance" not in item:  # printed before the wait, which may be interrupted
            print_aside(f"{escaped(str(item['name']))}: {problem_text(item['problem'])}")
    if interruption:
        print_aside(f"The request for the last {len(wanted) - len(items)} instances failed: {interruption}")
    accepted = [item for item in items if "instance" in item]
    failures = _wait(server, accepted, timeout) if wait else []
    if as_json:
        click.echo(json.dumps({"items": items}))
    else:
        for item in accepted:
            click.echo(outcome(item["instance"]))
    if failed := len(wanted) - len(accepted) + len(failures):
        raise WorkFailed("\ninterlock: ".join([*failures, f"{failed} of {len(wanted)} instances failed."]))


def _send(
    server: "ControlPlane", verb: str, wanted: Sequence[Any]
) -> tuple[list[dict[str, Any]], InterlockError | None]:
    """Send the requests, up to the first that fails. Returns the results and that request's error, if any.

    Raises the error if it was the first request that failed.
    """
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


def _wait(server: "ControlPlane", accepted: list[dict[str, Any]], timeout: float | None) -> list[str]:
    """Wait for the work on the instances and put the final records into the items. Returns the reasons of failures."""
    requested: list[Facts] = [item["instance"] for item in accepted]
    found = wait_for_end(server, INSTANCES, requested, timeout)
    for item, instance in zip(accepted, found, strict=True):
        item["instance"] = instance
    return [why for one, now in zip(requested, found, strict=True) if (why := work_failure(INSTANCES, one, now))]


def wanted_in(path: Path) -> list[dict[str, Any]]:
    """Returns the objects in the file, in the API's form. The server checks their properties."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        found = _toml(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise ConfigurationError(f"The file {path} cannot be read ({error.strerror}): use another file.") from error
    except ValueError as error:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise ConfigurationError(f"The file {path} is not valid {kind}: {error}.") from error
    instances = found.get("instances") if isinstance(found, dict) else found
    if not isinstance(instances, list) or not _are_named(instances):
        raise ConfigurationError(
            f"The file {path} names no instances: write a list of objects with a name in JSON, "
            "or [[instances]] tables in TOML."
        )
    try:
        json.dumps(instances)
    except TypeError as error:  # TOML has dates and times, and no property of an instance is one
        raise ConfigurationError(f"The file {path} holds a date or a time: put it into quotes.") from error
    return instances


def _are_named(instances: list[Any]) -> bool:
    return bool(instances) and all(isinstance(one, dict) and "name" in one for one in instances)


def _toml(text: str) -> Any:
    import tomllib

    return tomllib.loads(text)
