"""The role that owns an instance, and its database. They are made, or confirmed, by the superuser on the Unix socket.

The server is told what a password is checked with, and never the password: it may write statements into its log.
"""

from interlock.instances.drivers.owner import verifier
from interlock.stores.postgres import Session
from interlock.stores.statements import statements

_SQL = statements("interlock.instances.drivers.local", "queries.sql")


async def make_owner(session: Session, name: str, password: str) -> None:
    """Make the role, or give it this password."""
    await session.execute(await session.fetchval(_SQL["make_owner"], name, verifier(password)))


async def make_database(session: Session, name: str) -> None:
    """Make the owner's database unless it is there."""
    statement = await session.fetchval(_SQL["make_database"], name)
    if statement is not None:
        await session.execute(statement)
