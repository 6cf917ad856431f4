"""The count of cycles, and the duration and begin of the worst one."""

import time
from dataclasses import dataclass


@dataclass
class Tally:
    count: int = 0
    worst: float = 0.0
    begun_at: float = 0.0

    def note(self, begun_at: float) -> None:
        """Count a cycle that ends now."""
        self.count += 1
        if (took := time.monotonic() - begun_at) > self.worst:
            self.worst, self.begun_at = took, begun_at
