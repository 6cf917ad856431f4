"""What PostgreSQL in a pod reads: its configuration, and who may connect how."""

import hashlib
import re
from collections.abc import Mapping

from interlock.errors import BadSpec

CONFIGURATION_DIR = "/etc/interlock/configuration"
SECRET_DIR = "/etc/interlock/secret"  # noqa: S105 # where it is mounted
DATA_DIR = "/interlock/data/pgdata"

CONF = "postgresql.conf"
HBA = "pg_hba.conf"

_PARAMETER = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")
# The pod's shape depends on these: where files are, where it listens, that its log comes out at the container's.
_RESERVED = frozenset(
    {"config_file", "data_directory", "hba_file", "ident_file", "external_pid_file", "listen_addresses", "port"}
    | {"unix_socket_directories", "logging_collector", "log_destination", "include", "include_dir", "include_if_exists"}
    | {"ssl", "ssl_cert_file", "ssl_key_file", "password_encryption"}
)

_RULES = """\
local all all trust
hostssl all postgres all reject
hostssl all all all scram-sha-256
"""


def check(parameters: Mapping[str, str]) -> None:
    for name, value in parameters.items():
        if not _PARAMETER.fullmatch(name):
            raise BadSpec(f"{name!r} is not the name of a parameter: use lower-case letters, digits and underscores.")
        if name in _RESERVED:
            raise BadSpec(f"The parameter {name} is set by the driver: leave it out.")
        if any(ord(character) < 32 for character in value):
            raise BadSpec(f"The value of {name} has a line break or a control character in it: take it out.")


def files(
    parameters: Mapping[str, str],
    *,
    directory: str = CONFIGURATION_DIR,
    secrets: str = SECRET_DIR,
    data: str = DATA_DIR,
) -> dict[str, str]:
    """The image's own configuration counts as long as nothing here says otherwise."""
    fixed = {
        "listen_addresses": "*",
        "password_encryption": "scram-sha-256",
        "ssl": "on",
        "ssl_cert_file": f"{secrets}/tls.crt",
        "ssl_key_file": f"{secrets}/tls.key",
    }
    lines = [f"include_if_exists '{data}/postgresql.conf'", f"hba_file = {quoted(f'{directory}/{HBA}')}"]
    lines += [f"{name} = {quoted(value)}" for name, value in {**dict(sorted(parameters.items())), **fixed}.items()]
    return {CONF: "\n".join(lines) + "\n", HBA: _RULES}


def quoted(value: str) -> str:
    """As the configuration file takes it, where a backslash begins an escape."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def digest(contents: Mapping[str, str]) -> str:
    """Tells whether a pod was started with these contents."""
    return hashlib.sha256(repr(sorted(contents.items())).encode()).hexdigest()[:16]
