"""A driver for tooz: ``tooz.coordination.get_coordinator("interlock+postgresql://…", b"me")``.

See docs/how-to/tooz.md.
"""

from interlock.errors import ConfigurationError

try:
    import tooz.coordination  # noqa: F401
except ModuleNotFoundError as error:
    raise ConfigurationError("interlock.integrations.tooz needs the package tooz: pip install tooz.") from error

from interlock.integrations.tooz.driver import PostgresDriver, SqliteDriver

__all__ = ["PostgresDriver", "SqliteDriver"]
