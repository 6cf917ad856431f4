"""Names of tables and columns, as they stand in statements."""

from interlock.errors import ConfigurationError
from interlock.stores.postgres.queries import quote_identifier


def quoted(name: str) -> str:
    """``shop.orders`` is the table `orders` in the schema `shop`."""
    parts = name.split(".") if isinstance(name, str) else []
    if not 1 <= len(parts) <= 2 or not all(part and part.isprintable() for part in parts):
        raise ConfigurationError(f"{name!r} is no name of a table: write table, or schema.table.")
    return ".".join(map(quote_identifier, parts))


def column(name: str) -> str:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ConfigurationError(f"{name!r} is no name of a column.")
    return quote_identifier(name)


def beside(table: str, suffix: str) -> str:
    """The name of something that belongs to the table, in the table's own schema."""
    schema, _, name = table.rpartition(".")
    return quoted(f"{schema}.{name}_{suffix}" if schema else f"{name}_{suffix}")
