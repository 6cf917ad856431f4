"""A connection to an instance as the owner's clients make it: over verified TLS, with the password."""

from functools import partial
from urllib.parse import quote

from interlock.instances.drivers.port import Driver, Endpoint
from interlock.stores.postgres import Session, connect
from interlock.stores.postgres.url import ServerAddress
from interlock.tls.sslmode import sslmode


async def connected(driver: Driver, id: str, endpoint: Endpoint, timeout: float, purpose: str) -> Session:
    """Open a session. The password goes from the driver to the server, and nowhere else."""
    address = ServerAddress(endpoint.host, endpoint.port).quoted
    url = f"postgresql://{quote(endpoint.user, safe='')}@{address}/{quote(endpoint.database, safe='')}"
    mode = sslmode(endpoint.host, endpoint.ca)
    return await connect(
        url if endpoint.ca else f"{url}?sslmode={mode}",
        application_name=f"interlock {purpose}",
        timeout=timeout,
        statement_timeout=timeout,
        password=partial(driver.password, id),
        ca=endpoint.ca,
        ca_is_enough=mode == "verify-ca",
    )


async def reach(driver: Driver, id: str, endpoint: Endpoint, timeout: float) -> None:
    """Connect to the instance, and return when it has answered a query."""
    async with await connected(driver, id, endpoint, timeout, "health") as session:
        await session.fetchval("SELECT 1")
