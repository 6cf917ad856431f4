"""PostgreSQL's settings: Interlock's, the caller's, and the reserved ones."""

import re
from collections.abc import Mapping

from interlock.errors import ConfigurationError

DEFAULTS: Mapping[str, str] = {
    "cluster_name": "interlock",
    "huge_pages": "off",
    "jit": "off",
    "lc_messages": "C",
    "max_connections": "100",
    "max_wal_size": "512MB",
    "min_wal_size": "32MB",
    "password_encryption": "scram-sha-256",
    "shared_buffers": "128MB",
    # Durable, whatever postgresql.conf says.
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
}

# Settings that Interlock sets on the command line or relies on, and directives of the file's grammar.
RESERVED = frozenset(
    {
        "config_file",
        "data_directory",
        "external_pid_file",
        "hba_file",
        "ident_file",
        "include",
        "include_dir",
        "include_if_exists",
        "lc_messages",
        "listen_addresses",
        "logging_collector",
        "log_destination",
        "port",
        "ssl",
        "ssl_cert_file",
        "ssl_key_file",
        "unix_socket_directories",
        "unix_socket_permissions",
    }
)
_NAME = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?", re.ASCII)


def check_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings, names in lower case. Raises ConfigurationError for a reserved or malformed setting."""
    checked = {name.lower(): value for name, value in settings.items()}
    for name, value in checked.items():
        if not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"{name!r} cannot be the name of a PostgreSQL setting: correct the name, or leave the setting out."
            )
        if name in RESERVED:
            raise ConfigurationError(f"The setting {name} is set by Interlock itself: leave this setting out.")
        if any(ord(character) < 32 for character in value):
            raise ConfigurationError(f"The value of {name} has a control character in it: leave that character out.")
    return checked


def time_zone_settings(*, zones_known: bool) -> dict[str, str]:
    """Returns settings for UTC, or for GMT: the equivalent name that a server without a time zone database knows."""
    zone = "UTC" if zones_known else "GMT"
    return {"timezone": zone, "log_timezone": zone}


def render(settings: Mapping[str, str]) -> str:
    """Returns the text of a configuration file with these settings, which `check_settings` has to have checked."""
    lines = (f"{name} = {_quoted(value)}\n" for name, value in sorted(settings.items()))
    return "# Written by Interlock at each start: changes are lost.\n" + "".join(lines)


def as_arguments(settings: Mapping[str, str]) -> list[str]:
    """Returns the settings as arguments of `postgres`. These override every other source of settings."""
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]


def as_list_item(path: str) -> str:
    """Returns the path, quoted for a setting that is a list with commas."""
    return '"{}"'.format(path.replace('"', '""'))


def _quoted(value: str) -> str:
    return "'{}'".format(value.replace("\\", "\\\\").replace("'", "''"))
