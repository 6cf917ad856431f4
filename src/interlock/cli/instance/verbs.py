"""What can be asked of an instance without saying more: start, stop, restart, a new password, never mind."""

from collections.abc import Callable
from typing import Any

import click

from interlock.cli.facts import json_option
from interlock.cli.instance.telling import INSTANCES
from interlock.cli.record.conclusion import conclude, not_cancelled, wait_options
from interlock.cli.record.kind import Facts, Kind
from interlock.cli.record.paths import path_of
from interlock.cli.server.options import server_for, server_options


def _verb(name: str, about: str, why_not: Callable[[Kind, Facts, Facts], str] | None = None) -> click.Command:
    @click.command(name, help=about)
    @click.argument("instance", metavar="NAME")
    @wait_options
    @json_option
    @server_options
    def verb(instance: str, wait: bool, timeout: float | None, as_json: bool, **flags: Any) -> None:
        server = server_for(flags)
        asked = server.change("POST", path_of(INSTANCES.path, instance, name))
        conclude(server, INSTANCES, asked, wait=wait, timeout=timeout, as_json=as_json, why_not=why_not)

    return verb


start = _verb("start", "Start the instance NAME, which is stopped.")
stop = _verb("stop", "Stop the instance NAME. Its data, its names and its address stay.")
restart = _verb("restart", "Stop the instance NAME and start it again.")
reset_password = _verb(
    "reset-password", "Give the owner of the instance NAME a new password; `interlock instance password` tells it."
)
cancel = _verb(
    "cancel",
    "Cancel what works on the instance NAME. A creation is undone; of all else, the instance stays as it is then.",
    why_not=not_cancelled,
)
