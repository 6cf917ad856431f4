"""Checks of arguments: names of tables and columns, which are quoted for statements, and recorded times."""

from datetime import datetime

from interlock.errors import ConfigurationError
from interlock.stores.postgres.queries import quote_identifier


def quoted(name: str) -> str:
    """Quote the name of a table. ``shop.orders`` is the table `orders` in the schema `shop`."""
    parts = name.split(".") if isinstance(name, str) else []
    if not 1 <= len(parts) <= 2 or not all(part and part.isprintable() for part in parts):
        raise ConfigurationError(f"{name!r} cannot be the name of a table: write table, or schema.table.")
    return ".".join(map(quote_identifier, parts))


def column(name: str) -> str:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ConfigurationError(f"{name!r} cannot be the name of a column: use printable characters.")
    return quote_identifier(name)


def beside(table: str, suffix: str) -> str:
    """Returns the quoted name of an object that belongs to the table, in the table's schema."""
    schema, _, name = table.rpartition(".")
    return quoted(f"{schema}.{name}_{suffix}" if schema else f"{name}_{suffix}")


def checked_moment(at: datetime) -> datetime:
    """Require a recorded time: a time that is the same again when the operation is repeated."""
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise ConfigurationError(
            f"{at!r} cannot be a recorded time: pass a datetime with a time zone, the same one at each repetition."
        )
    return at
