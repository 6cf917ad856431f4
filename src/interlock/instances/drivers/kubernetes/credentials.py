"""What the Secret of an instance holds: its owner's password, its certificate, and the SQL of its first start.

The owner is a role that owns the database of its own name. The superuser has no way in over the network.
"""

import base64
from collections.abc import Mapping
from typing import Any

from interlock.instances.drivers.owner import verifier
from interlock.tls.self_signed import self_signed

SUPERUSER = "postgres"
PASSWORD = "password"  # noqa: S105 # what it is called in the Secret
NEXT = "next-password"  # the same, while it is being changed
CERTIFICATE = "tls.crt"
KEY = "tls.key"
_PAIR = {CERTIFICATE, KEY}
FIRST_START = "owner.sql"
PSQL = ("psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--username={SUPERUSER}")
"""Inside the pod, where no password is asked for; statements come on its standard input."""
# An instance's parameters may make every transaction read-only that does not say otherwise.
_WRITING = "SET default_transaction_read_only = off;\n"


def contents(name: str, password: str, hosts: list[str]) -> dict[str, str]:
    """The image runs `owner.sql` once, when it has made the cluster."""
    certificate, key = self_signed(hosts)
    owner = f"{_WRITING}CREATE ROLE {_identifier(name)} LOGIN;\n{_password_statement(name, password)}\n"
    owner += f"CREATE DATABASE {_identifier(name)} OWNER {_identifier(name)};\n"
    texts = {PASSWORD: password, FIRST_START: owner, CERTIFICATE: certificate.decode(), KEY: key.decode()}
    return {entry: packed(text) for entry, text in texts.items()}


def missing(existing: Mapping[str, str], contents: Mapping[str, str]) -> dict[str, str]:
    """What has to be added to what is there. Certificate and key go together: half of a pair is of no use."""
    lacking = {name for name in contents if name not in existing}
    if lacking & _PAIR:
        lacking |= _PAIR
    return {name: contents[name] for name in lacking}


def new_password_statement(name: str, password: str) -> str:
    """With what the server keeps of a password: it may write statements into its log."""
    return _WRITING + _password_statement(name, password)


def entry(secret: Any, name: str) -> str | None:
    value = (secret.data or {}).get(name)
    return None if value is None else base64.b64decode(value).decode()


def packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _password_statement(name: str, password: str) -> str:
    return f"ALTER ROLE {_identifier(name)} PASSWORD '{verifier(password)}';"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
