"""The contents of an instance's Secret: the owner's password, the certificate, and the SQL of the first start.

The owner is a role that owns the database with its own name. The superuser cannot log in over the network.
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
"""The command to run inside the pod, where it needs no password. It reads statements from its standard input."""
# The parameters of an instance may make transactions read-only by default.
_WRITING = "SET default_transaction_read_only = off;\n"


def contents(name: str, password: str, hosts: list[str]) -> dict[str, str]:
    """Returns the entries of the Secret. The image runs `owner.sql` once, after it has created the cluster."""
    certificate, key = self_signed(hosts)
    owner = f"{_WRITING}CREATE ROLE {_identifier(name)} LOGIN;\n{_password_statement(name, password)}\n"
    owner += f"CREATE DATABASE {_identifier(name)} OWNER {_identifier(name)};\n"
    texts = {PASSWORD: password, FIRST_START: owner, CERTIFICATE: certificate.decode(), KEY: key.decode()}
    return {entry: packed(text) for entry, text in texts.items()}


def missing(existing: Mapping[str, str], contents: Mapping[str, str]) -> dict[str, str]:
    """Returns the missing entries. Certificate and key are only added together."""
    lacking = {name for name in contents if name not in existing}
    if lacking & _PAIR:
        lacking |= _PAIR
    return {name: contents[name] for name in lacking}


def new_password_statement(name: str, password: str) -> str:
    """Returns the statement that sets the password.

    It has the verifier, not the password, because the server may log statements.
    """
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
