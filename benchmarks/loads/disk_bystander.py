"""A process that only syncs another file on the same disk: when was it delayed, and for how long?

It rests for some milliseconds, writes a block of a file of its own and syncs it, over and over. Told is when each of
its rests ought to have ended, and when the block was on the disk.
"""

import os
import time

from benchmarks.loads.protocol import Order, Settings, serve

_REST = 0.005
_BLOCK = b"\0" * 4096


def main(settings: Settings) -> None:
    descriptor = os.open(settings["url"], os.O_RDWR | os.O_CREAT, 0o600)

    def turn(order: Order) -> list[tuple[float, float]]:
        spells = []
        while (begun_at := time.monotonic()) < order["until"]:
            time.sleep(_REST)
            os.pwrite(descriptor, _BLOCK, 0)
            os.fdatasync(descriptor)
            spells.append((begun_at + _REST, time.monotonic()))
        return spells

    serve(turn)
