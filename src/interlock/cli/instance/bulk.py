"""Many instances in one request. Each is taken or refused for itself."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.facts import shown
from interlock.cli.failing import WorkFailed
from interlock.cli.instance.concluding import ended, failed
from interlock.cli.instance.telling import Facts, outcome
from interlock.cli.server.refusals import sentence

if TYPE_CHECKING:
    from interlock.cli.server.asking import Server

_MOST = 50
"""In one request."""


def in_bulk(
    server: "Server", verb: str, wanted: Sequence[Any], *, wait: bool, timeout: float | None, as_json: bool
) -> None:
    """Raises WorkFailed if not all went well; what came of each is told before."""
    items: list[dict[str, Any]] = []
    for first in range(0, len(wanted), _MOST):
        body = {"instances": list(wanted[first : first + _MOST])}
        items += server.change("POST", f"/instances/bulk-{verb}", body)["items"]
    failures = [f"{shown(str(item['name']))}: {sentence(item['problem'])}" for item in items if "instance" not in item]
    taken = [item for item in items if "instance" in item]
    if wait:
        failures += _follow(server, taken, timeout)
    if as_json:
        click.echo(json.dumps({"items": items}))
    else:
        for item in taken:
            click.echo(outcome(item["instance"]))
    if failures:
        raise WorkFailed("\ninterlock: ".join([*failures, f"{len(failures)} of {len(items)} did not succeed."]))


def _follow(server: "Server", taken: list[dict[str, Any]], timeout: float | None) -> list[str]:
    asked: list[Facts] = [item["instance"] for item in taken]
    found = ended(server, asked, timeout)
    for item, instance in zip(taken, found, strict=True):
        item["instance"] = instance
    return [why for why in map(failed, asked, found) if why]
