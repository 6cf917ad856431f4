"""Guards on Django's connections."""

import sys
from typing import Any

from interlock.coordination.guards.call import Guarded, outside, parameters, refused, statement


def carry(grant: Guarded, connection: Any) -> None:
    if connection.vendor != "postgresql":
        raise refused(
            grant, f"The database {connection.alias!r} is {connection.vendor}, and leases are kept in PostgreSQL"
        )
    if not connection.in_atomic_block and connection.get_autocommit():
        raise outside(grant, "guard inside `with transaction.atomic():`")
    with connection.cursor() as cursor:
        cursor.execute(statement(grant.schema, "%s", "%s", "%s"), parameters(grant))


def carry_by_alias(grant: Guarded, alias: str | None) -> None:
    """Without an alias, the default database."""
    django = sys.modules.get("django.db")
    if django is None:
        raise refused(grant, "Only Django's connections have aliases, and Django is not in use: pass the connection")
    carry(grant, django.connections[alias or django.DEFAULT_DB_ALIAS])
