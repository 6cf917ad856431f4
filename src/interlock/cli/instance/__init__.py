"""``interlock instance``: PostgreSQL instances, through the control plane."""

import click

from interlock.cli.lazy import LazyGroup

_COMMANDS = {
    "abandon": "interlock.cli.instance.changes:abandon",
    "backup": "interlock.cli.instance.backups:backup",
    "backups": "interlock.cli.instance.backups:backups",
    "cancel": "interlock.cli.instance.changes:cancel",
    "connect": "interlock.cli.instance.connection:connect",
    "create": "interlock.cli.instance.creation:create",
    "delete": "interlock.cli.instance.changes:delete",
    "delete-backup": "interlock.cli.instance.backups:delete_backup",
    "drift": "interlock.cli.instance.drift:drift",
    "events": "interlock.cli.instance.inspection:events",
    "facts": "interlock.cli.instance.inspection:facts",
    "list": "interlock.cli.instance.inspection:list_",
    "logs": "interlock.cli.instance.inspection:logs",
    "password": "interlock.cli.instance.connection:password",
    "reset-password": "interlock.cli.instance.changes:reset_password",
    "resize": "interlock.cli.instance.changes:resize",
    "restart": "interlock.cli.instance.changes:restart",
    "restore": "interlock.cli.instance.backups:restore",
    "set": "interlock.cli.instance.changes:set_",
    "show": "interlock.cli.instance.inspection:show",
    "start": "interlock.cli.instance.changes:start",
    "stop": "interlock.cli.instance.changes:stop",
    "verify": "interlock.cli.instance.backups:verify",
    "wait": "interlock.cli.instance.wait:wait",
    "watch": "interlock.cli.instance.watch:watch",
}


@click.group(cls=LazyGroup, homes=_COMMANDS)
def instance() -> None:
    """PostgreSQL instances: create, use and delete them through the control plane.

    On the machine of `interlock up`, these commands find the control plane without settings. On another machine, set
    INTERLOCK_SERVER and INTERLOCK_API_KEY.
    """
