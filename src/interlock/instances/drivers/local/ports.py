"""Which port an instance gets: one of a range, and for good.

Who chooses holds the lock of the directory until the choice is written down, so two that serve one directory never
choose the same. Another directory's driver, or any other program, may still take the port between the look and the
start: the server then refuses to start, and a new instance is given another.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from interlock.embedded.lifecycle import free_port
from interlock.embedded.locks import exclusive
from interlock.errors import OutOfPorts
from interlock.instances.drivers.local.marker import Marker, markers


def choose_port(
    root: Path, ports: Sequence[int], avoid: Collection[int], write_down: Callable[[int], Marker]
) -> Marker:
    """What `write_down` made of the first port that is free and no instance's. Raises OutOfPorts."""
    with exclusive(root / "ports.lock", lambda: None):
        known = {marker.port for marker in markers(root).values() if marker}
        for port in ports:
            if port not in known and port not in avoid and free_port(port):
                return write_down(port)
    raise OutOfPorts(
        f"All {len(ports)} ports from {ports[0]} to {ports[-1]} are taken: remove an instance, or give the driver a "
        "wider range."
    )
