"""Where backups are kept, and for how long."""

from dataclasses import dataclass
from pathlib import Path

from interlock.errors import ConfigurationError


@dataclass(frozen=True)
class Keeping:
    """The newest `keep` of each instance's stay, 0: all; none that is older than `days`, 0: of any age.

    The newest one stays however old it is. `pg_bin`: PostgreSQL's programs, to be preferred to those that are found.
    """

    directory: Path
    keep: int = 0
    days: float = 0.0
    pg_bin: Path | None = None

    def __post_init__(self) -> None:
        if self.keep < 0 or not 0 <= self.days < float("inf"):
            raise ConfigurationError(
                f"backup_keep={self.keep} and backup_days={self.days:g} cannot be: both are 0 or more."
            )
