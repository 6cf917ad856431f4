"""The verdict on a schema: behind, current or newer than a replica's version."""

import re
from enum import StrEnum

from interlock.errors import ConfigurationError

Version = int | str

_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*")


class Verdict(StrEnum):
    """The result of a check. A check may also return a bool: True if the schema is current."""

    BEHIND = "behind"
    CURRENT = "current"
    NEWER = "newer"
    TOO_NEW = "too new"


def as_verdict(answer: "Verdict | bool") -> Verdict:
    if isinstance(answer, Verdict):
        return answer
    return Verdict.CURRENT if answer else Verdict.BEHIND


def compare(mine: Version, recorded: str | None, compatible_since: str | None) -> Verdict:
    """Compare a replica's version, `mine`, with the schema's recorded version.

    A migration to a newer version also recorded the oldest version that can work with the schema, `compatible_since`.
    If it recorded none, no older version can.
    """
    if recorded is None or _parts(recorded) < _parts(mine):
        return Verdict.BEHIND
    if _parts(recorded) == _parts(mine):
        return Verdict.CURRENT
    usable = compatible_since is not None and _parts(compatible_since) <= _parts(mine)
    return Verdict.NEWER if usable else Verdict.TOO_NEW


def check_versions(version: Version | None, compatible_since: Version | None) -> tuple[str | None, str | None]:
    """Returns both versions as they are recorded. Raises ConfigurationError if they are not valid."""
    if compatible_since is None:
        return _checked(version), None
    if version is None:
        raise ConfigurationError(f"compatible_since ({compatible_since}) needs a version: set the version as well.")
    if _parts(compatible_since) > _parts(version):
        raise ConfigurationError(
            f"compatible_since ({compatible_since}) is later than the version ({version}): "
            f"set it to {version} or an older version."
        )
    return _checked(version), _checked(compatible_since)


def _checked(version: Version | None) -> str | None:
    if version is None:
        return None
    _parts(version)
    return str(version)


def _parts(version: Version) -> tuple[int, ...]:
    if not _VERSION.fullmatch(str(version)):
        raise ConfigurationError(
            f"{version!r} cannot be a gate's version: use a number, or numbers with dots between them (2026.3.1)."
        )
    parts = [int(part) for part in str(version).split(".")]
    while parts[1:] and parts[-1] == 0:
        parts.pop()
    return tuple(parts)
