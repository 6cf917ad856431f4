"""The configuration files of PostgreSQL in a pod: its parameters, and the rules of authentication."""

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
# The pod depends on these: the places of files, the addresses, and the log on the container's output.
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
            raise BadSpec(
                f"{name!r} cannot be the name of a parameter: use lower-case letters, digits and underscores."
            )
        if name in _RESERVED:
            raise BadSpec(f"The parameter {name} is set by the driver: leave it out.")
        if any(ord(character) < 32 for character in value):
            raise BadSpec(f"The value of {name} contains a line break or a control character: remove it.")


def files(
    parameters: Mapping[str, str],
    *,
    directory: str = CONFIGURATION_DIR,
    secrets: str = SECRET_DIR,
    data: str = DATA_DIR,
) -> dict[str, str]:
    """Returns the configuration files. They include the image's own configuration, which these parameters override."""
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
    """Returns the value in the syntax of the configuration file, in which a backslash begins an escape."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def digest(contents: Mapping[str, str]) -> str:
    """Returns a digest of the contents, by which a pod shows the configuration that it was started with."""
    return hashlib.sha256(repr(sorted(contents.items())).encode()).hexdigest()[:16]
