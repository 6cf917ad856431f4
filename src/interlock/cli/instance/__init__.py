"""``interlock instance``: PostgreSQL instances, through the control plane. Each command is a line here."""

import click

from interlock.cli.lazy import LazyGroup

_COMMANDS = {
    "abandon": "interlock.cli.instance.deleting:abandon",
    "backup": "interlock.cli.instance.backing_up:backup",
    "backups": "interlock.cli.instance.backing_up:backups",
    "cancel": "interlock.cli.instance.verbs:cancel",
    "connect": "interlock.cli.instance.connecting:connect",
    "create": "interlock.cli.instance.creating:create",
    "delete": "interlock.cli.instance.deleting:delete",
    "delete-backup": "interlock.cli.instance.backing_up:delete_backup",
    "drift": "interlock.cli.instance.drifting:drift",
    "events": "interlock.cli.instance.looking:events",
    "facts": "interlock.cli.instance.looking:facts",
    "list": "interlock.cli.instance.looking:list_",
    "logs": "interlock.cli.instance.looking:logs",
    "password": "interlock.cli.instance.connecting:password",
    "reset-password": "interlock.cli.instance.verbs:reset_password",
    "resize": "interlock.cli.instance.changing:resize",
    "restart": "interlock.cli.instance.verbs:restart",
    "restore": "interlock.cli.instance.restoring:restore",
    "set": "interlock.cli.instance.changing:set_",
    "show": "interlock.cli.instance.looking:show",
    "start": "interlock.cli.instance.verbs:start",
    "stop": "interlock.cli.instance.verbs:stop",
    "verify": "interlock.cli.instance.backing_up:verify",
    "wait": "interlock.cli.instance.waiting:wait",
    "watch": "interlock.cli.instance.watching:watch",
}


@click.group(cls=LazyGroup, homes=_COMMANDS)
def instance() -> None:
    """PostgreSQL instances: made, used and deleted through the control plane.

    On the machine of `interlock up` it is found by itself; elsewhere INTERLOCK_SERVER and INTERLOCK_API_KEY name it.
    """
