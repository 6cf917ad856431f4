"""Facts about a running instance, read from its own server over a verified connection."""

from dataclasses import dataclass
from datetime import datetime

from interlock.errors import DriverUnreachable, IllegalTransition, StoreError
from interlock.instances.client import connected
from interlock.instances.drivers.port import Driver
from interlock.instances.records import InstanceRecord
from interlock.stores.statements import statements

_SQL = statements("interlock.instances", "facts.sql")


@dataclass(frozen=True)
class InstanceFacts:
    """`size_bytes` is the size of the database.

    `connections` counts client connections, without the one of this query.
    """

    version: str
    size_bytes: int
    connections: int
    max_connections: int
    started_at: datetime


async def facts(driver: Driver, instance: InstanceRecord, timeout: float = 10.0) -> InstanceFacts:
    endpoint = instance.endpoint
    if instance.state != "running" or endpoint is None:
        raise IllegalTransition(
            f"The instance {instance.name} is {instance.state}, and only a running instance has facts: start it, "
            "or wait until it runs.",
            state=instance.state,
            event="facts",
        )
    try:
        async with await connected(driver, instance.id, endpoint, timeout, "facts") as session:
            [row] = await session.fetch(_SQL["facts"])
    except StoreError as error:  # from the instance's own server, not from the database of records
        raise DriverUnreachable(
            f"The instance {instance.name} does not answer, although it should run: check its server's log. {error}"
        ) from error
    return InstanceFacts(*row)
