"""``interlock instance connect`` and ``password``: access to an instance as its owner.

The password arrives sealed for this process. psql gets it in its environment, which only the same user can read, and
never in its arguments, which every user can read. psql inherits the certificate as a file without a name, which
vanishes when psql ends.
"""

import base64
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.instance.presentation import INSTANCES, name_of, status
from interlock.cli.output import json_option
from interlock.cli.record.api import path_of
from interlock.cli.record.kind import Facts
from interlock.cli.server.options import server_for, server_options, settings_for
from interlock.errors import IllegalTransition

if TYPE_CHECKING:
    from interlock.cli.server.client import ControlPlane

_ELSEWHERE = (
    *("PGHOSTADDR", "PGSERVICE", "PGSERVICEFILE", "PGPASSFILE", "PGREQUIREPEER", "PGTARGETSESSIONATTRS"),
    *("PGSSLCERT", "PGSSLKEY", "PGSSLCRL", "PGSSLCRLDIR", "PGSSLNEGOTIATION", "PGREQUIRESSL", "PGGSSENCMODE"),
)
"""Variables that could make psql connect to another server, or connect to this server in another way."""


@click.command()
@click.argument("name")
@json_option
@server_options
def password(name: str, as_json: bool, **flags: Any) -> None:
    """Print the password of the owner of the instance NAME."""
    server = server_for(flags)
    secret = _password(server, server.get(path_of(INSTANCES.path, name)))
    click.echo(json.dumps({"password": secret}) if as_json else secret)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("arguments", metavar="[-- PSQL ARGUMENTS]", nargs=-1, type=click.UNPROCESSED)
@server_options
def connect(name: str, arguments: tuple[str, ...], **flags: Any) -> None:
    """Open psql on the instance NAME as its owner.

    For example: interlock instance connect shop -- -c 'SELECT now()'

    The connection uses TLS, and the certificate is checked. The exit status is psql's.
    """
    server = server_for(flags)
    instance = server.get(path_of(INSTANCES.path, name))
    if not instance["connection"]:
        raise IllegalTransition(
            f"{name_of(instance)} is {status(instance)} and does not listen yet: wait until it runs, with "
            f"`interlock instance wait {name_of(instance)} --for running`.",
            state=instance["state"],
            event="connect",
        )
    if instance["state"] == "stopped":
        raise IllegalTransition(
            f"{name_of(instance)} is stopped: `interlock instance start {name_of(instance)} --wait` starts it.",
            state="stopped",
            event="connect",
        )
    program = psql(flags)
    environment = client_environment(instance["connection"], os.environ) | {"PGPASSWORD": _password(server, instance)}
    if ca := instance["connection"].get("ca"):
        environment["PGSSLROOTCERT"] = f"/dev/fd/{_inherited(ca)}"
    sys.stdout.flush()
    os.execve(program, [program, *arguments], environment)  # noqa: S606 - no shell, and psql gets the terminal


def psql(flags: dict[str, Any]) -> str:
    """Returns the psql on the PATH, else that of the PostgreSQL that Interlock finds. Raises BinariesMissing."""
    if found := shutil.which("psql"):
        return found
    from interlock.embedded import find_binaries

    return str(find_binaries(settings_for(flags).pg_bin).tool("psql"))


def client_environment(where: Facts, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment in which psql and other libpq programs connect to the instance, without the password."""
    kept = {name: value for name, value in environ.items() if name not in _ELSEWHERE}
    return kept | {
        "PGHOST": where["host"],
        "PGPORT": str(where["port"]),
        "PGUSER": where["user"],
        "PGDATABASE": where["database"],
        "PGSSLMODE": where["sslmode"],
        "PGAPPNAME": environ.get("PGAPPNAME", "interlock connect"),
    }


def _password(server: "ControlPlane", instance: Facts) -> str:
    from interlock.sealing import Opener

    opener = Opener()
    public_key = base64.b64encode(opener.public_key).decode()
    answer = server.change("POST", path_of(INSTANCES.path, instance["id"], "credential"), {"public_key": public_key})
    secret: str = opener.open(base64.b64decode(answer["sealed"]), instance["id"])
    return secret


def _inherited(text: str) -> int:
    """Returns the handle of a file without a name, which only this process and psql, its successor, can read."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.flush()
        handle = os.dup(file.fileno())
    os.lseek(handle, 0, os.SEEK_SET)
    os.set_inheritable(handle, True)
    return handle
