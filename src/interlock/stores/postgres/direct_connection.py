"""Requirements for a session that holds locks: a direct connection to one server process of the primary.

Advisory locks belong to a server process. A pooler in transaction mode gives one server process to two clients, and
both clients would hold the lock. A standby has locks of its own, which the primary does not know.
"""

from collections.abc import Mapping

from interlock import errors
from interlock.stores.postgres.session import Session


async def is_pooled(session: Session) -> bool:
    """True if the server process that answers is not the process that was announced at the connection's start."""
    answering: int = await session.fetchval("SELECT pg_backend_pid()")
    return session.announced_pid != answering


async def require_primary(session: Session) -> None:
    if await session.fetchval("SELECT pg_is_in_recovery()"):
        raise errors.NotPrimary(f"{session.shown_url} is a standby: name the primary in the URL.")


async def configure(session: Session, settings: Mapping[str, str]) -> None:
    """Set these settings for this session, whatever the defaults of the role or the database are."""
    await session.fetch(_CONFIGURE, list(settings), list(settings.values()))


def noticing_a_dead_network(ttl: float) -> dict[str, str]:
    """Returns settings with which the server ends a connection within `ttl` after the client's machine fell silent.

    The settings do not replace `idle_session_timeout`: the machine of a stopped process still answers the server.
    """
    return {
        "tcp_user_timeout": milliseconds(ttl),
        "tcp_keepalives_idle": f"{max(1, ttl / 2):.0f}",
        "tcp_keepalives_interval": f"{max(1, ttl / 6):.0f}",
        "tcp_keepalives_count": "3",
    }


def milliseconds(seconds: float) -> str:
    """Returns the duration in the form that the server's settings take."""
    return f"{seconds * 1000:.0f}"


_CONFIGURE = "SELECT set_config(name, value, false) FROM unnest($1::text[], $2::text[]) AS setting(name, value)"
