"""The model of an instance: its states and transitions, and the validation of requests.

`TRANSITIONS` declares the target of each event in each state. The database's trigger and the diagram in the
documentation are generated from it. The declaration keeps these rules:

- `delete` is allowed in every state in which something may exist. It cancels a creation, whose late `come_up` is then
  refused.
- `deleting` leads to `deleted` or to `failed`, and only another `delete` leads out of `failed`. So an instance that is
  half removed is never started again. For that reason an unsuccessful start or stop does not end in `failed`: it ends
  in the state that is observed, up or down, and can be repeated.
- `fail` means that nothing usable is left: the creation was undone, or everything is gone without a deletion, or the
  removal was not possible.
- Each event has one target, so the state alone identifies a repetition (see `StateMachine`).
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

# A role and a database of PostgreSQL get the instance's name. PostgreSQL does not allow the first five for both.
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
    """Returns the name as a DNS label, in lower case."""
    name = dns_label(given)
    if name in _RESERVED:
        raise InvalidName(f"{given!r} is reserved for PostgreSQL or Interlock: choose another name.", name=given)
    return name


def storage_bytes(given: str | int) -> int:
    """Returns a size in bytes.

    ``10Gi`` and ``10GiB`` are binary, ``500M`` and ``500MB`` decimal, a bare number is bytes.
    """
    text = str(given).strip()
    match = _SIZE.fullmatch(text)
    if not match or match[2] not in _UNITS or isinstance(given, bool):
        raise BadSpec(
            f"{text[:40]!r} is not a valid size: write it like 10Gi or 500MB, with k, M, G, T or Ki, Mi, Gi, Ti."
        )
    size = math.ceil(Fraction(match[1]) * _UNITS[match[2]])
    if not SMALLEST <= size <= LARGEST:
        raise BadSpec(f"{text!r} is out of range for an instance: use 256Mi to 64Ti.")
    return size


def major_version(given: str | int | None) -> str | None:
    """Returns the major version. None or an empty text gives None, which means the driver's newest version."""
    text = "" if given is None else str(given).strip()
    if not text:
        return None
    if not re.fullmatch(r"[1-9][0-9]", text) or int(text) < OLDEST_VERSION:
        raise BadSpec(
            f"{text[:40]!r} is not a valid version: give the major version alone, such as 17, "
            f"and not below {OLDEST_VERSION}."
        )
    return text


def parameters(given: Mapping[str, str | int | float | bool]) -> dict[str, str]:
    """Returns PostgreSQL's parameters as text, with their names in lower case.

    The driver checks names and values further.
    """
    checked: dict[str, str] = {}
    for asked, value in given.items():
        name = asked.lower()
        if not _PARAMETER.fullmatch(name):
            raise BadSpec(f"{asked[:70]!r} cannot be the name of a PostgreSQL parameter: SHOW ALL lists the names.")
        if name in checked:
            raise BadSpec(f"The parameter {name} is given twice: leave one of them out.")
        checked[name] = _parameter(name, value)
    if len(checked) > _MOST_PARAMETERS:
        raise BadSpec(f"{len(checked)} parameters are too many: give {_MOST_PARAMETERS} at most.")
    return checked


def tags(given: Mapping[str, str]) -> dict[str, str]:
    """Check and return the user's own tags, by which instances can be filtered."""
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
