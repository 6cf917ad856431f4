"""A process that provisions or removes an instance with the driver `local`, and kills itself after a given step."""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from conformance.drivers.local import local_driver
from interlock.instances.drivers.port import Spec


class Death(logging.Handler):
    """Comes with that many steps done."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._left = after

    def emit(self, record: logging.LogRecord) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def main(root: str, first_port: str, verb: str, id: str, name: str, after: str) -> None:  # noqa: A002
    steps = logging.getLogger("interlock.instances.drivers.local.steps")
    steps.setLevel(logging.DEBUG)
    steps.addHandler(Death(int(after)))
    driver = local_driver(Path(root), int(first_port))
    asyncio.run(driver.provision(Spec(id, name)) if verb == "provision" else driver.remove(id))


if __name__ == "__main__":
    main(*sys.argv[1:])
