"""PostgreSQL's parameters of an instance: small defaults, and the user's own, which the server itself checks."""

from collections.abc import Mapping

from interlock.embedded.binaries import Binaries
from interlock.embedded.settings import check_settings
from interlock.errors import BadSpec, ConfigurationError

# Many instances share a machine, and most of them are idle.
DEFAULTS: Mapping[str, str] = {"max_connections": "50", "shared_buffers": "32MB", "max_wal_size": "256MB"}

# These run programs as the user of all instances' servers, choose where libraries are loaded from, or let the server
# write outside of its data directory.
_BEYOND_ONE_INSTANCE = frozenset(
    {
        "archive_cleanup_command",
        "archive_command",
        "archive_library",
        "dynamic_library_path",
        "extension_control_path",
        "plperl.on_init",
        "plperl.on_plperlu_init",
        "recovery_end_command",
        "restore_command",
        "ssl_passphrase_command",
        "stats_temp_directory",
    }
)
_LIBRARIES = frozenset(
    {"jit_provider", "local_preload_libraries", "oauth_validator_libraries", "session_preload_libraries"}
    | {"shared_preload_libraries"}
)
# With these the owner's password could not be checked any more, or its name would not work for a login.
_RESERVED = frozenset({"db_user_namespace", "password_encryption"})


def check_names(parameters: Mapping[str, str]) -> dict[str, str]:
    """Returns the parameters with their names in lower case. Raises BadSpec for parameters that users may not set."""
    try:
        checked = check_settings(parameters)
    except ConfigurationError as error:
        raise BadSpec(str(error)) from error
    for name, value in checked.items():
        if name in _BEYOND_ONE_INSTANCE or (name in _LIBRARIES and "/" in value):
            raise BadSpec(f"The parameter {name} could affect more than this instance: leave it out.")
        if name in _RESERVED:
            raise BadSpec(f"The parameter {name} is set by Interlock itself: leave it out.")
    return checked


def check_parameters(
    parameters: Mapping[str, str], binaries: Binaries, defaults: Mapping[str, str] = DEFAULTS
) -> dict[str, str]:
    """Like `check_names`. Also raises BadSpec, with the server's own message, for a value that the server refuses."""
    checked = check_names(parameters)
    if refusal := binaries.refusal({**defaults, **checked}):
        raise BadSpec(f"PostgreSQL {binaries.version[0]} refuses a parameter ({refusal}): correct or remove it.")
    return checked
