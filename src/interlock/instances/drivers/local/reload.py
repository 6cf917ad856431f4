"""Giving a running server other settings than it was started with. They are in its files already."""

import asyncio
from typing import Literal

from interlock.errors import BadSpec, ClusterFailed
from interlock.stores.postgres import Session
from interlock.stores.statements import statements

_SQL = statements("interlock.instances.drivers.local", "queries.sql")
_TIMEOUT = 30.0
_LOOK_AGAIN = 0.01


async def check_files(session: Session) -> None:
    """Raises BadSpec for what the running server would not take, though the program had nothing against it."""
    refused = [row["name"] for row in await session.fetch(_SQL["refused_settings"])]
    if refused:
        raise BadSpec(f"The running server refuses the parameter {refused[0]}: correct it, or leave it out.")


async def reload(session: Session) -> Literal["reloaded", "restart needed"]:
    """Return when the server goes by its files."""
    before = await session.fetchval(_SQL["reload"])
    try:
        async with asyncio.timeout(_TIMEOUT):
            while not await session.fetchval(_SQL["loaded_since"], before):  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(_LOOK_AGAIN)
    except TimeoutError:
        raise ClusterFailed(f"PostgreSQL has not read its settings within {_TIMEOUT:g} s: try again.") from None
    return "restart needed" if await session.fetchval(_SQL["waits_for_restart"]) else "reloaded"
