"""A process that runs an operation of the driver `local`, and kills itself after a given step."""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from interlock.instances.drivers.port import Spec
from support.certificate_authority import Authority
from support.local_instances import local_driver


class Death(logging.Handler):
    """Kills the process after that many steps."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._left = after

    def emit(self, record: logging.LogRecord) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def main(root: str, first_port: str, verb: str, id: str, name: str, after: str) -> None:  # noqa: A002
    death = Death(int(after))
    for teller in ("interlock.instances.drivers.local.directory", "interlock.embedded.certificates"):
        steps = logging.getLogger(teller)
        steps.setLevel(logging.DEBUG)
        steps.addHandler(death)
    driver = local_driver(Path(root), int(first_port))
    match verb:
        case "provision":
            asyncio.run(driver.provision(Spec(id, name)))
        case "use_certificate":
            asyncio.run(driver.use_certificate(id, Authority().issue()))
        case _:
            asyncio.run(getattr(driver, verb)(id))


if __name__ == "__main__":
    main(*sys.argv[1:])
