"""What an instance is: the states it goes through, and what may be asked for.

One declaration says which events lead from which state to which; the database's trigger and the picture come from it
too. What it holds to:

- Whatever is going on can be ended by `delete`. Creation is cancelled by that: a late `come_up` of it is refused.
- `deleting` leads to `deleted`, or to `failed`, and out of that leads nothing but another `delete`. So an instance of
  which half is gone is never started again. That is why an unsuccessful start or stop does not end in `failed`: it ends
  where the instance really is, up or down, and may be tried again.
- `fail` says that nothing usable is left: creation was undone, everything is gone though nobody deleted it, or it could
  not be removed.
- Each event has one target, so a repetition is known by the state alone (see `StateMachine`).
"""

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Literal

from interlock.errors import BadSpec, InvalidName
from interlock.names import dns_label

State = Literal["creating", "running", "stopping", "stopped", "starting", "deleting", "deleted", "failed"]
Event = Literal["come_up", "go_down", "stop", "start", "restart", "fail", "delete", "vanish"]
Health = Literal["unknown", "healthy", "unhealthy"]

TRANSITIONS: Mapping[str, Mapping[str, str]] = {
    "creating": {"come_up": "running", "fail": "failed", "delete": "deleting"},
    "running": {"stop": "stopping", "restart": "starting", "fail": "failed", "delete": "deleting"},
    "stopping": {"go_down": "stopped", "come_up": "running", "fail": "failed", "delete": "deleting"},
    "stopped": {"start": "starting", "fail": "failed", "delete": "deleting"},
    "starting": {"come_up": "running", "go_down": "stopped", "fail": "failed", "delete": "deleting"},
    "failed": {"delete": "deleting"},
    "deleting": {"vanish": "deleted", "fail": "failed"},
}

OLDEST_VERSION = 14
SMALLEST = 256 * 2**20
LARGEST = 64 * 2**40

# The first five cannot be both a role and a database of PostgreSQL's, which are called as the instance is.
_RESERVED = frozenset({"none", "postgres", "public", "template0", "template1", "interlock", "localhost"})
_SIZE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)")
_UNITS: dict[str, int] = {"": 1, "B": 1} | {
    prefix + unit: factor**power
    for power, (decimal, binary) in enumerate([("k", "Ki"), ("M", "Mi"), ("G", "Gi"), ("T", "Ti")], 1)
    for prefix, factor in ((decimal, 1000), (binary, 1024))
    for unit in ("", "B")
}
_PARAMETER = re.compile(r"[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?")
_TAG = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_./-]{0,61}[A-Za-z0-9])?")
_MOST_PARAMETERS, _LONGEST_PARAMETER = 200, 1000
_MOST_TAGS, _LONGEST_TAG = 50, 255


def instance_name(given: str) -> str:
    """A DNS label, in lower case."""
    name = dns_label(given)
    if name in _RESERVED:
        raise InvalidName(f"{given!r} is a name that PostgreSQL or Interlock needs: choose another.", name=given)
    return name


def storage_bytes(given: str | int) -> int:
    """``10Gi`` and ``10GiB`` are binary, ``500M`` and ``500MB`` decimal, a bare number is bytes."""
    text = str(given).strip()
    match = _SIZE.fullmatch(text)
    if not match or match[2] not in _UNITS or isinstance(given, bool):
        raise BadSpec(f"{text[:40]!r} is no size: write it like 10Gi or 500MB, with k, M, G, T or Ki, Mi, Gi, Ti.")
    size = math.ceil(Fraction(match[1]) * _UNITS[match[2]])
    if not SMALLEST <= size <= LARGEST:
        raise BadSpec(f"{text!r} is no size for an instance: use 256Mi to 64Ti.")
    return size


def major_version(given: str | int | None) -> str | None:
    """None, or nothing, is the driver's newest."""
    text = "" if given is None else str(given).strip()
    if not text:
        return None
    if not re.fullmatch(r"[1-9][0-9]", text) or int(text) < OLDEST_VERSION:
        raise BadSpec(
            f"{text[:40]!r} is no version to ask for: give the major version alone, such as 17, "
            f"and not below {OLDEST_VERSION}."
        )
    return text


def parameters(given: Mapping[str, str | int | float | bool]) -> dict[str, str]:
    """PostgreSQL's settings, as text and with their names in lower case. What they mean is for the driver to judge."""
    checked: dict[str, str] = {}
    for asked, value in given.items():
        name = asked.lower()
        if not _PARAMETER.fullmatch(name):
            raise BadSpec(f"{asked[:70]!r} is not the name of a parameter of PostgreSQL's: see the names in SHOW ALL.")
        if name in checked:
            raise BadSpec(f"The parameter {name} is given twice: leave one out.")
        checked[name] = _parameter(name, value)
    if len(checked) > _MOST_PARAMETERS:
        raise BadSpec(f"{len(checked)} parameters are too many: give {_MOST_PARAMETERS} at most.")
    return checked


def tags(given: Mapping[str, str]) -> dict[str, str]:
    """Words of the user's own, to find instances by."""
    for name, value in given.items():
        if not _TAG.fullmatch(name):
            raise BadSpec(
                f"{name[:70]!r} cannot be the name of a tag: use 1 to 63 letters, digits and any of _ . / - in between."
            )
        if not isinstance(value, str) or len(value) > _LONGEST_TAG or not value.isprintable():
            raise BadSpec(
                f"The tag {name} has to be text of {_LONGEST_TAG} characters at most, without control characters."
            )
    if len(given) > _MOST_TAGS:
        raise BadSpec(f"{len(given)} tags are too many: give {_MOST_TAGS} at most.")
    return dict(given)


def _parameter(name: str, value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    text = str(value)
    if not isinstance(value, str | int | float) or len(text) > _LONGEST_PARAMETER or not text.isprintable():
        raise BadSpec(
            f"The parameter {name} has to be text or a number, of {_LONGEST_PARAMETER} characters at most and without "
            "control characters."
        )
    return text
