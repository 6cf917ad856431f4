"""kazoo's Lock and Semaphore, with one client per process as in its documentation."""

from kazoo.client import KazooClient  # type: ignore[import-not-found] # in the peers' environment

from benchmarks.loads.lock_program import serve_locks
from benchmarks.loads.protocol import Settings


def main(settings: Settings) -> None:
    client = KazooClient(hosts=settings["url"])
    client.start()
    try:
        if "slots" in settings:
            serve_locks(lambda name: client.Semaphore(f"/benchmark/{name}", settings["slots"]), settings)
        else:
            serve_locks(lambda name: client.Lock(f"/benchmark/{name}"), settings)
    finally:
        client.stop()
        client.close()
