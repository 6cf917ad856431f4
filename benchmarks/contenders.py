"""The contenders, by their names in the report."""

from urllib.parse import urlsplit, urlunsplit

from benchmarks.bench import Bench, Contender

INTERLOCK = "Interlock, tasks"
INTERLOCK_THREADS = "Interlock, threads"
INTERLOCK_UNCONFIRMED = "Interlock, tasks, release not confirmed"
INTERLOCK_THREADS_UNCONFIRMED = "Interlock, threads, release not confirmed"
UVLOOP = "Interlock, tasks on uvloop"
UVLOOP_THREADS = "Interlock, threads on uvloop"
UVLOOP_UNCONFIRMED = "Interlock, tasks on uvloop, not confirmed"
UVLOOP_THREADS_UNCONFIRMED = "Interlock, threads on uvloop, not confirmed"
PGBENCH = "pgbench, raw statements"
ASYNCPG = "asyncpg, raw statements"
ADVISORY = "pg_advisory_lock, raw"
TOOZ = "tooz-postgresql"
TOOZ_ETCD = "tooz-etcd"
REDIS = "redis-py, AOF always"
REDIS_VOLATILE = "redis-py, not durable"
KAZOO = "kazoo"
DIRECT = "psycopg, a connection for each"
INTERLOCK_DYNAMODB = "Interlock on DynamoDB, tasks"
INTERLOCK_DYNAMODB_THREADS = "Interlock on DynamoDB, threads"
DYNAMODB_LOCK = "python-dynamodb-lock"


def _database(bench: Bench) -> str:
    return bench.database


def _tooz_database(bench: Bench) -> str:
    """tooz reads the database's name from the query."""
    url = urlsplit(bench.database)
    return urlunsplit(url._replace(path="", query=f"dbname={url.path[1:]}"))


PEERS = {
    TOOZ: Contender("tooz_locks", _tooz_database, ("tooz",)),
    TOOZ_ETCD: Contender("tooz_locks", lambda bench: bench.etcd, ("tooz", "etcd")),
    REDIS: Contender("redis_locks", lambda bench: bench.durable_redis, ("redis",)),
    REDIS_VOLATILE: Contender("redis_locks", lambda bench: bench.volatile_redis, ("redis",)),
    DYNAMODB_LOCK: Contender("dynamodb_locks", lambda bench: bench.dynalite, ("python-dynamodb-lock",)),
    KAZOO: Contender("kazoo_locks", lambda bench: bench.zookeeper, ("kazoo", "zookeeper")),
}
_UNCONFIRMED = {"confirm_release": False}
_ON_UVLOOP = {"loop": "uvloop"}
OURS = {
    INTERLOCK: Contender("interlock_tasks", _database),
    INTERLOCK_THREADS: Contender("interlock_locks", _database),
    INTERLOCK_UNCONFIRMED: Contender("interlock_tasks", _database, settings=_UNCONFIRMED),
    INTERLOCK_THREADS_UNCONFIRMED: Contender("interlock_locks", _database, settings=_UNCONFIRMED),
    UVLOOP: Contender("interlock_tasks", _database, settings=_ON_UVLOOP),
    UVLOOP_THREADS: Contender("interlock_locks", _database, settings=_ON_UVLOOP),
    UVLOOP_UNCONFIRMED: Contender("interlock_tasks", _database, settings=_ON_UVLOOP | _UNCONFIRMED),
    UVLOOP_THREADS_UNCONFIRMED: Contender("interlock_locks", _database, settings=_ON_UVLOOP | _UNCONFIRMED),
    ASYNCPG: Contender("raw_asyncpg", _database),
    ADVISORY: Contender("advisory_locks", _database),
    DIRECT: Contender("direct_psycopg", _database),
    INTERLOCK_DYNAMODB: Contender("interlock_tasks", lambda bench: bench.dynalite),
    INTERLOCK_DYNAMODB_THREADS: Contender("interlock_locks", lambda bench: bench.dynalite),
}
CONTENDERS = OURS | PEERS
