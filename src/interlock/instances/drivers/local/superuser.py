"""The superuser of an instance's server, which connects by the Unix socket: owner, database and settings.

The server receives the verifier of a password, never the password itself, because the server may write statements into
its log.
"""

import asyncio
from typing import Literal

from interlock.embedded import Cluster
from interlock.errors import BadSpec, ClusterFailed
from interlock.instances.drivers.owner import verifier
from interlock.stores.postgres import Session, connect
from interlock.stores.statements import statements

_SQL = statements("interlock.instances.drivers.local", "queries.sql")
_RELOAD_TIMEOUT = 30.0
_RELOAD_POLL = 0.01

# These override the instance's own parameters, which belong to its users. Some parameters would make these sessions
# fail, and with another search path the superuser would call functions of the users.
_SESSION_SETTINGS = {
    "search_path": "pg_catalog",
    "default_transaction_read_only": "off",
    "idle_session_timeout": "0",
    "lock_timeout": "0",
    "statement_timeout": "0",
}


async def superuser(cluster: Cluster) -> Session:
    """Open a session of the superuser, whose password only Interlock has."""
    return await connect(cluster.url(), application_name="interlock instances", timeout=60, settings=_SESSION_SETTINGS)


async def make_owner(session: Session, name: str, password: str) -> None:
    """Create the owner's role, or set the password of the existing role."""
    await session.execute(await session.fetchval(_SQL["make_owner"], name, verifier(password)))


async def make_database(session: Session, name: str) -> None:
    """Create the owner's database unless it exists."""
    statement = await session.fetchval(_SQL["make_database"], name)
    if statement is not None:
        await session.execute(statement)


async def check_files(session: Session) -> None:
    """Raises BadSpec for a parameter that the running server refuses, although the program accepted the parameter."""
    refused = [row["name"] for row in await session.fetch(_SQL["refused_settings"])]
    if refused:
        raise BadSpec(f"The running server refuses the parameter {refused[0]}: correct it, or leave it out.")


async def reload(session: Session) -> Literal["reloaded", "restart needed"]:
    """Reload the server's settings, and return when the server uses those in its files."""
    before = await session.fetchval(_SQL["reload"])
    try:
        async with asyncio.timeout(_RELOAD_TIMEOUT):
            while not await session.fetchval(_SQL["loaded_since"], before):  # noqa: ASYNC110 - the server sends no notification
                await asyncio.sleep(_RELOAD_POLL)
    except TimeoutError:
        raise ClusterFailed(f"PostgreSQL has not read its settings within {_RELOAD_TIMEOUT:g} s: try again.") from None
    return "restart needed" if await session.fetchval(_SQL["waits_for_restart"]) else "reloaded"
