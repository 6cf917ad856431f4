"""Cycle after cycle: how many there were, how long the worst one took, and when it began."""

import time
from dataclasses import dataclass


@dataclass
class Tally:
    count: int = 0
    worst: float = 0.0
    begun_at: float = 0.0

    def note(self, begun_at: float) -> None:
        """A cycle that ends now."""
        self.count += 1
        if (took := time.monotonic() - begun_at) > self.worst:
            self.worst, self.begun_at = took, begun_at
