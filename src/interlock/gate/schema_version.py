"""What a replica has to do about the schema it meets."""

import re
from enum import StrEnum

from interlock.errors import ConfigurationError

Version = int | str

_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*")


class Verdict(StrEnum):
    """A check may return one of these, or plainly whether the schema is current."""

    BEHIND = "behind"
    CURRENT = "current"
    NEWER = "newer"
    TOO_NEW = "too new"


def as_verdict(answer: "Verdict | bool") -> Verdict:
    if isinstance(answer, Verdict):
        return answer
    return Verdict.CURRENT if answer else Verdict.BEHIND


def compare(mine: Version, recorded: str | None, compatible_since: str | None) -> Verdict:
    """Where a replica of version `mine` stands, once `recorded` has been migrated to.

    Whoever migrated to a newer version also said since which version releases can work with it; if it said nothing,
    none can.
    """
    if recorded is None or _parts(recorded) < _parts(mine):
        return Verdict.BEHIND
    if _parts(recorded) == _parts(mine):
        return Verdict.CURRENT
    usable = compatible_since is not None and _parts(compatible_since) <= _parts(mine)
    return Verdict.NEWER if usable else Verdict.TOO_NEW


def check_versions(version: Version | None, compatible_since: Version | None) -> tuple[str | None, str | None]:
    """The two as they are recorded, or a ConfigurationError."""
    if compatible_since is None:
        return _checked(version), None
    if version is None:
        raise ConfigurationError(f"compatible_since is {compatible_since}, of no version: say that as well.")
    if _parts(compatible_since) > _parts(version):
        raise ConfigurationError(f"Version {version} cannot be compatible since {compatible_since}, which is later.")
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
