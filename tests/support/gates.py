"""The state of a gate, read from the database."""

from urllib.parse import urlsplit

from interlock.gate.name import GateName
from interlock.stores.postgres import AdvisoryKey
from support.postgres import execute

_HELD = """
SELECT count(*) FROM pg_locks
 WHERE locktype = 'advisory' AND granted AND objsubid = 2
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND classid::bigint = (%s::bigint & 4294967295) AND objid::bigint = (%s::bigint & 4294967295)
"""


def gate_name(url: str, app: str | None = None, schema: str = "public") -> GateName:
    return GateName(urlsplit(url).path.lstrip("/"), schema, app)


def sessions_with(url: str, key: AdvisoryKey) -> int:
    return int(execute(url, _HELD, *key)[0][0])


def end_sessions_with(url: str, key: AdvisoryKey) -> None:
    execute(url, _HELD.replace("count(*)", "pg_terminate_backend(pid)"), *key)


def waiters(url: str, app: str | None = None) -> int:
    """The number of replicas that wait at the gate."""
    return sessions_with(url, gate_name(url, app).waiting)


def is_held(url: str, app: str | None = None) -> bool:
    return sessions_with(url, gate_name(url, app).lock) == 1
