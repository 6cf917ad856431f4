"""kazoo's Lock and Semaphore: one client in a process, as its documentation has it."""

from kazoo.client import KazooClient  # type: ignore[import-not-found] # in the peers' environment

from benchmarks.loads.choice import serve_locks
from benchmarks.loads.talk import Settings


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
