"""The model of a backup: its states and transitions, the validation of requests, and the settings.

`failed` means that the backup is unusable: it could not be made, is damaged, or could not be removed. As with
instances, only `delete` leads out of that state. So a backup in the state `made` was written completely, and no damage
was found.
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
    """The newest `keep` backups of each instance are kept (0: all), for `days` days (0: without limit).

    The newest backup is kept at any age. `pg_bin` is a directory with PostgreSQL's programs. Interlock prefers these
    programs to those in the system.
    """

    directory: Path
    keep: int = 0
    days: float = 0.0
    pg_bin: Path | None = None

    def __post_init__(self) -> None:
        if self.keep < 0 or not 0 <= self.days < float("inf"):
            raise ConfigurationError(
                f"backup_keep={self.keep} and backup_days={self.days:g} are not valid: set both to 0 or more."
            )


def backup_format(given: str) -> Format:
    for known in get_args(Format):
        if given == known:
            return known  # type: ignore[no-any-return]
    raise BadSpec(f"{given[:40]!r} is not a valid format of backups: use file or directory.")
