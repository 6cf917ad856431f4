"""Reads URLs of tables: ``dynamodb://TABLE?region=…&endpoint=…``, and a bound for the clients' clocks."""

import math
import re
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from interlock.errors import ConfigurationError

_FORM = "it should look like dynamodb://table?region=eu-west-1"
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_PARAMETERS = ("region", "endpoint", "prefix", "max_clock_skew")
_LONGEST_PREFIX = 64
DEFAULT_PREFIX = "LOCK#"
RECORDS = "RECORD#"
"""The keys of records begin with this text, and continue like the keys of leases."""


class TableAddress(NamedTuple):
    """If `region` or `endpoint` is None, AWS's own settings decide. Keys begin with `prefix`.

    `max_clock_skew` is a bound, in seconds, for the difference between the clocks of any two clients; None if unknown.
    """

    table: str
    region: str | None = None
    endpoint: str | None = None
    prefix: str = DEFAULT_PREFIX
    max_clock_skew: float | None = None

    def __str__(self) -> str:
        return f"dynamodb://{self.table}"


def is_address(url: str) -> bool:
    return url.partition(":")[0].lower() == "dynamodb"


def parsed(url: str) -> TableAddress:
    """Raises ConfigurationError for a URL that cannot be used."""
    try:
        parts = urlsplit(url)
        given = parse_qs(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else {}
    except ValueError:
        raise ConfigurationError(f"The URL of the DynamoDB table cannot be read: {_FORM}.") from None
    if "@" in parts.netloc:
        raise ConfigurationError(
            f"The URL of a DynamoDB table must not have credentials in it ({_FORM}): use AWS's own variables, profiles "
            "or roles."
        )
    if not is_address(url) or parts.path.strip("/") or "#" in url or not _TABLE.fullmatch(parts.netloc):
        raise ConfigurationError(
            f"The URL of a DynamoDB table has to name the table: {_FORM}. "
            "A # in a parameter is written %23, and a table's name has 3 to 255 of A-Z a-z 0-9 _ . -"
        )
    if unknown := [name for name in given if name not in _PARAMETERS]:
        raise ConfigurationError(
            f"The URL of the DynamoDB table has an unknown parameter {unknown[0]!r}: use {', '.join(_PARAMETERS)}."
        )
    value = {name: values[-1] for name, values in given.items()}
    return TableAddress(
        parts.netloc,
        value.get("region") or None,
        _endpoint(value.get("endpoint")),
        _prefix(value.get("prefix", DEFAULT_PREFIX)),
        _skew(value.get("max_clock_skew")),
    )


def _endpoint(given: str | None) -> str | None:
    if given and urlsplit(given).scheme not in ("http", "https"):
        raise ConfigurationError(f"The endpoint {given!r} of the DynamoDB table has to be an http or https URL.")
    return given or None


def _prefix(given: str) -> str:
    if not 0 < len(given) <= _LONGEST_PREFIX or not given.isprintable() or given.startswith(RECORDS):
        raise ConfigurationError(
            f"prefix={given!r} cannot be used: use 1 to {_LONGEST_PREFIX} printable characters that do not begin with "
            f"{RECORDS}, as the keys of records do."
        )
    return given


def _skew(given: str | None) -> float | None:
    if given is None:
        return None
    try:
        skew = float(given)
    except ValueError:
        skew = math.nan
    if not 0 <= skew < math.inf:
        raise ConfigurationError(f"max_clock_skew={given!r} cannot be used: use a number of seconds, 0 or more.")
    return skew
