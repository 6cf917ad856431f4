"""What the Secret of an instance holds: its owner's password, its certificate, and the SQL of its first start.

The owner is a role that owns the database of its own name. The superuser has no way in over the network.
"""

import base64
from typing import Any

from interlock.embedded.tls import self_signed
from interlock.instances.drivers.owner import verifier

SUPERUSER = "postgres"
PASSWORD = "password"  # noqa: S105 # what it is called in the Secret
NEXT = "next-password"  # the same, while it is being changed
CERTIFICATE = "tls.crt"
FIRST_START = "owner.sql"
PSQL = ("psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--username={SUPERUSER}")
"""Inside the pod, where no password is asked for; statements come on its standard input."""


def contents(name: str, password: str, hosts: list[str]) -> dict[str, str]:
    """The image runs `owner.sql` once, when it has made the cluster."""
    certificate, key = self_signed(hosts)
    owner = f"CREATE ROLE {_identifier(name)} LOGIN;\n{new_password_statement(name, password)}\n"
    owner += f"CREATE DATABASE {_identifier(name)} OWNER {_identifier(name)};\n"
    texts = {PASSWORD: password, FIRST_START: owner, CERTIFICATE: certificate.decode(), "tls.key": key.decode()}
    return {entry: packed(text) for entry, text in texts.items()}


def new_password_statement(name: str, password: str) -> str:
    """With what the server keeps of a password: it may write statements into its log."""
    return f"ALTER ROLE {_identifier(name)} PASSWORD '{verifier(password)}';"


def entry(secret: Any, name: str) -> str | None:
    value = (secret.data or {}).get(name)
    return None if value is None else base64.b64decode(value).decode()


def packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
