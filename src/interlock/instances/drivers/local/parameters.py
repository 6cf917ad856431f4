"""PostgreSQL's settings of an instance: small by default, else the user's, and judged by the server itself."""

from collections.abc import Mapping

from interlock.embedded.binaries import Binaries
from interlock.embedded.settings import check_settings
from interlock.errors import BadSpec, ConfigurationError

# Many share a machine, and most of them are idle.
DEFAULTS: Mapping[str, str] = {"max_connections": "50", "shared_buffers": "32MB", "max_wal_size": "256MB"}

# They run programs as the user that runs the servers of all instances, say where programs are loaded from, or where
# the server writes outside of its data.
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
# The owner's password could not be checked any more, or nobody log in under the name that is told.
_RESERVED = frozenset({"db_user_namespace", "password_encryption"})


def check_names(parameters: Mapping[str, str]) -> dict[str, str]:
    """With their names in lower case. Raises BadSpec for those that are not for users to set."""
    try:
        checked = check_settings(parameters)
    except ConfigurationError as error:
        raise BadSpec(str(error)) from error
    for name, value in checked.items():
        if name in _BEYOND_ONE_INSTANCE or (name in _LIBRARIES and "/" in value):
            raise BadSpec(f"The parameter {name} would reach beyond this instance: leave it out.")
        if name in _RESERVED:
            raise BadSpec(f"The parameter {name} is set by Interlock itself: leave it out.")
    return checked


def check_parameters(
    parameters: Mapping[str, str], binaries: Binaries, defaults: Mapping[str, str] = DEFAULTS
) -> dict[str, str]:
    """The same, and in the server's own words where it is the one who refuses."""
    checked = check_names(parameters)
    if refusal := binaries.refusal({**defaults, **checked}):
        raise BadSpec(
            f"PostgreSQL {binaries.version[0]} refuses the parameters ({refusal}): correct or remove that one."
        )
    return checked
