"""What a backup is: the states it goes through, and what may be asked for.

`failed` says that it is of no use: it could not be made, is damaged, or could not be removed. As with instances,
nothing but `delete` leads out of that; so what is `made` was written to its end, and not found damaged since.
"""

from collections.abc import Mapping
from typing import Literal, get_args

from interlock.errors import BadSpec

State = Literal["making", "made", "failed", "deleting", "deleted"]
Event = Literal["finish", "fail", "delete", "vanish"]
Format = Literal["file", "directory"]

TRANSITIONS: Mapping[str, Mapping[str, str]] = {
    "making": {"finish": "made", "fail": "failed", "delete": "deleting"},
    "made": {"fail": "failed", "delete": "deleting"},
    "failed": {"delete": "deleting"},
    "deleting": {"vanish": "deleted", "fail": "failed"},
}


def backup_format(given: str) -> Format:
    for known in get_args(Format):
        if given == known:
            return known  # type: ignore[no-any-return]
    raise BadSpec(f"{given[:40]!r} is no format of a backup: use file or directory.")
