"""What a session must be for locks to hang on it: one server process of the primary's, and no pooler in between.

Advisory locks belong to a server process. A pooler in transaction mode hands one such process to two clients, and both
would hold the lock; a standby has locks of its own, of which the primary knows nothing.
"""

from collections.abc import Mapping

from interlock import errors
from interlock.stores.postgres.session import Session


async def is_pooled(session: Session) -> bool:
    """Whether another server process answers than the one that was announced when we connected."""
    answering: int = await session.fetchval("SELECT pg_backend_pid()")
    return session.announced_pid != answering


async def require_primary(session: Session) -> None:
    if await session.fetchval("SELECT pg_is_in_recovery()"):
        raise errors.NotPrimary(f"{session.shown_url} is a standby: name the primary in the URL.")


async def configure(session: Session, settings: Mapping[str, str]) -> None:
    """For this session, whatever the role's or the database's defaults are."""
    await session.fetch(_CONFIGURE, list(settings), list(settings.values()))


def noticing_a_dead_network(ttl: float) -> dict[str, str]:
    """Settings with which the server gives up a connection within `ttl` once nothing is heard from the other machine.

    It is no replacement for `idle_session_timeout`: the machine of a process that was stopped answers for it.
    """
    return {
        "tcp_user_timeout": milliseconds(ttl),
        "tcp_keepalives_idle": f"{max(1, ttl / 2):.0f}",
        "tcp_keepalives_interval": f"{max(1, ttl / 6):.0f}",
        "tcp_keepalives_count": "3",
    }


def milliseconds(seconds: float) -> str:
    """As the server's settings take it."""
    return f"{seconds * 1000:.0f}"


_CONFIGURE = "SELECT set_config(name, value, false) FROM unnest($1::text[], $2::text[]) AS setting(name, value)"
