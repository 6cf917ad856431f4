"""How often a step is tried."""

from dataclasses import dataclass, field

from interlock.errors import ConfigurationError


@dataclass(frozen=True)
class Retry:
    """`attempts` in all; the pause after the first failure is `first` seconds, and grows by `factor` up to `longest`.

    Errors of the types in `never` are not worth another attempt; neither is `DoNotRetry`. The default outlasts a
    database that is away for some minutes.
    """

    attempts: int = 10
    first: float = 1.0
    factor: float = 2.0
    longest: float = 60.0
    never: tuple[type[BaseException], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.first < 0 or self.factor < 1 or self.longest < self.first:
            raise ConfigurationError(
                f"{self!r} cannot work: at least 1 attempt, pauses of 0 s or more, a factor of 1 or more."
            )

    def pause(self, failures: int) -> float | None:
        """After so many failures; None: that was the last attempt."""
        if failures >= self.attempts:
            return None
        return min(self.longest, self.first * self.factor ** min(failures - 1, 64))


USUAL = Retry()
ONCE = Retry(attempts=1)
FOREVER = Retry(attempts=1_000_000)
"""For steps that need nothing but the database."""
