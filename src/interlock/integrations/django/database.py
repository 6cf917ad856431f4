"""Django's database connections, as the migration gate uses them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

from interlock.config import Settings
from interlock.errors import ConfigurationError
from interlock.integrations.libpq_url import plain_url


def gate_url(connection: Any, settings: Settings) -> str:
    """Returns the URL of the connection's database. INTERLOCK_DATABASE_URL takes precedence for the alias `default`."""
    if connection.vendor != "postgresql":
        raise ConfigurationError(
            f"The database {connection.alias!r} is {connection.display_name}, and the gate needs PostgreSQL: "
            "run `migrate` instead of `gated_migrate`."
        )
    if connection.alias == DEFAULT_DB_ALIAS and settings.database_url:
        return settings.database_url
    return plain_url(connection.get_connection_params())


def disconnect(connection: Any) -> None:
    """Close the connection and its pool: a successor could not know that older sessions belong to this migration."""
    connection.close()
    close_pool = getattr(connection, "close_pool", None)  # since Django 5.1
    if close_pool:
        close_pool()


@contextmanager
def watch(before_statement: Callable[[Any], None]) -> Iterator[None]:
    """Watches all databases in this thread, because data migrations may use databases other than the migrated one."""

    def wrapper(execute: Callable[..., Any], sql: Any, params: Any, many: Any, context: dict[str, Any]) -> Any:
        before_statement(context["connection"].connection)
        return execute(sql, params, many, context)

    with ExitStack() as stack:
        for connection in connections.all():
            stack.enter_context(connection.execute_wrapper(wrapper))
        yield
