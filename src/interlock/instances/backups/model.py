"""What a backup is: the states it goes through, and what may be asked for.

`failed` says that it is of no use: it could not be made, is damaged, or could not be removed. As with instances,
nothing but `delete` leads out of that; so what is `made` was written to its end, and not found damaged since.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from interlock.errors import BadSpec, ConfigurationError

State = Literal["making", "made", "failed", "deleting", "deleted"]
Event = Literal["finish", "fail", "delete", "vanish"]
Format = Literal["file", "directory"]

TRANSITIONS: Mapping[str, Mapping[str, str]] = {
    "making": {"finish": "made", "fail": "failed", "delete": "deleting"},
    "made": {"fail": "failed", "delete": "deleting"},
    "failed": {"delete": "deleting"},
    "deleting": {"vanish": "deleted", "fail": "failed"},
}


@dataclass(frozen=True)
class BackupSettings:
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


def backup_format(given: str) -> Format:
    for known in get_args(Format):
        if given == known:
            return known  # type: ignore[no-any-return]
    raise BadSpec(f"{given[:40]!r} is no format of a backup: use file or directory.")
