"""redis-py's Lock, with its defaults and the same TTL as the others."""

import redis  # type: ignore[import-not-found] # in the peers' environment

from benchmarks.loads.lock_program import serve_locks
from benchmarks.loads.protocol import Settings


def main(settings: Settings) -> None:
    client = redis.Redis.from_url(settings["url"])
    serve_locks(lambda name: client.lock(name, timeout=30), settings)
