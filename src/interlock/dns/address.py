"""The DNS URL ``rfc2136://server:53/zone?key=…&secret-file=…``: name server, zone, and the place of the key's secret.

The secret itself is never part of the URL, so a URL may be shown.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from interlock.errors import ConfigurationError, InvalidName
from interlock.names import host_name

FORM = "rfc2136://server:53/zone?key=name&secret-file=/path"
ALGORITHMS = ("hmac-sha256", "hmac-sha224", "hmac-sha384", "hmac-sha512")
TRANSPORTS = ("tcp", "udp")

_PARAMETERS = ("key", "algorithm", "secret-file", "secret-env", "ttl", "timeout", "transport")
_KEY = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.IGNORECASE)
_LONGEST_TTL = 7 * 86400
_LONGEST_TIMEOUT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The parts of a DNS URL. `ttl` applies to records, `timeout` to requests.

    `zone=None` means that the server is queried for the zone.
    """

    server: str
    port: int = 53
    zone: str | None = None
    key: str
    algorithm: str = ALGORITHMS[0]
    secret_file: Path | None = None
    secret_env: str | None = None
    ttl: int = 60
    timeout: float = 5.0
    transport: str = TRANSPORTS[0]

    def __str__(self) -> str:
        server = f"[{self.server}]" if ":" in self.server else self.server
        return f"{server}:{self.port}"


def parse_address(url: str) -> Address:
    """Parse a DNS URL. Raises ConfigurationError, whose message shows nothing that could be a secret."""
    try:
        parts = urlsplit(url)
        server, port = parts.hostname, parts.port
        given = parse_qs(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else {}
    except ValueError:
        raise ConfigurationError(f"The DNS URL cannot be read: it should look like {FORM}.") from None
    if "@" in parts.netloc or "secret" in given:
        raise ConfigurationError(
            "The DNS URL must not contain a secret: put the secret into a file and give its path in secret-file=, or "
            "put it into an environment variable and give that variable's name in secret-env=."
        )
    if unknown := [name for name in given if name not in _PARAMETERS]:
        raise ConfigurationError(f"The DNS URL has the unknown parameter {unknown[0]!r}: use {', '.join(_PARAMETERS)}.")
    if not server or parts.fragment or port == 0:
        raise ConfigurationError(f"The DNS URL has to name a server: it should look like {FORM}.")
    value = {name: values[-1] for name, values in given.items()}
    file, variable = _place_of_secret(value)
    return Address(
        server=server,
        port=port or 53,
        zone=_zone(unquote(parts.path).strip("/")),
        key=_key(value.get("key", "")),
        algorithm=_one_of("algorithm", value, ALGORITHMS),
        secret_file=file,
        secret_env=variable,
        ttl=round(_number("ttl", value, 60, (1, _LONGEST_TTL))),
        timeout=_number("timeout", value, 5, (0.1, _LONGEST_TIMEOUT)),
        transport=_one_of("transport", value, TRANSPORTS),
    )


def _place_of_secret(value: Mapping[str, str]) -> tuple[Path | None, str | None]:
    file, variable = value.get("secret-file"), value.get("secret-env")
    if bool(file) == bool(variable):
        raise ConfigurationError(
            "The DNS URL has to name exactly one place of the TSIG secret: give secret-file=/path or "
            "secret-env=VARIABLE."
        )
    return Path(file).expanduser() if file else None, variable or None


def _zone(given: str) -> str | None:
    try:
        return host_name(given) if given else None
    except InvalidName as error:
        raise ConfigurationError(f"The DNS URL does not name a valid zone: {error}") from error


def _key(given: str) -> str:
    """Returns the key's name in lower case: key names are compared like host names, but may contain underscores."""
    if not _KEY.fullmatch(given):
        raise ConfigurationError(
            "The DNS URL has to name the TSIG key: add key=name, with the name in the server's settings."
        )
    return given.lower()


def _one_of(name: str, value: Mapping[str, str], allowed: tuple[str, ...]) -> str:
    given = value.get(name, allowed[0]).lower()
    if given not in allowed:
        raise ConfigurationError(f"The DNS URL has {name}={given!r}: use {', '.join(allowed)}.")
    return given


def _number(name: str, value: Mapping[str, str], usual: float, bounds: tuple[float, float]) -> float:
    least, most = bounds
    try:
        number = float(value.get(name, usual))
    except ValueError:
        number = -1.0
    if not least <= number <= most:
        raise ConfigurationError(f"The DNS URL has {name}={value[name]!r}: use seconds from {least:g} to {most:g}.")
    return number
