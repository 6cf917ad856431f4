"""The gate's times, and a check that they work together."""

from dataclasses import dataclass
from typing import Self

from interlock.config import Settings
from interlock.errors import ConfigurationError


@dataclass(frozen=True)
class Timing:
    """The gate's times, all in seconds.

    A silent holder (suspended, cut off) loses the lock `ttl` after its last heartbeat: the server ends the idle
    session. The holder itself stops trusting the lock earlier, `trust` after it *sent* that heartbeat, and stops its
    command. So the command has ended before another replica can hold the lock.
    """

    ttl: float = 10.0
    check_interval: float = 0.5
    poll: float = 0.5

    def __post_init__(self) -> None:
        if not 2 <= self.ttl <= 3600:
            raise ConfigurationError(
                f"A gate's ttl of {self.ttl:g} s cannot work: use 2 s (heartbeats need that) to 3600 s."
            )
        if not 0.05 <= self.check_interval <= self.ttl / 4:
            raise ConfigurationError(
                f"A check interval of {self.check_interval:g} s does not fit a ttl of {self.ttl:g} s: "
                "it has to be at least 0.05 s and at most a quarter of the ttl."
            )
        if not 0.01 <= self.poll <= self.ttl:
            raise ConfigurationError(
                f"A poll every {self.poll:g} s does not fit a ttl of {self.ttl:g} s: use 0.01 s to {self.ttl:g} s."
            )

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(ttl=settings.gate_ttl, check_interval=settings.gate_check_interval, poll=settings.gate_poll)

    @property
    def heartbeat(self) -> float:
        """The time between heartbeats. Several of them fit into the trust, so that the loss of one does no harm."""
        return self.trust / 4

    @property
    def trust(self) -> float:
        """The time for which a heartbeat is trusted. The rest of the ttl is for the end of the command: SIGTERM,
        `kill_grace`, SIGKILL."""
        return self.ttl - max(2 * self.kill_grace, self.ttl / 4)

    @property
    def kill_grace(self) -> float:
        """The time from SIGTERM to SIGKILL once the lock is lost. A successor waits twice as long before it starts."""
        return self.check_interval

    @property
    def settle(self) -> float:
        """The time that a successor gives a dead predecessor's supervisor and server sessions to end by themselves."""
        return 2 * self.check_interval
