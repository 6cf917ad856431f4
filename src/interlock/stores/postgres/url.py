"""Reads database URLs: their servers, their parameters, and the part of a URL that may be shown."""

from typing import NamedTuple
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlencode, urlsplit

from interlock.errors import ConfigurationError
from interlock.stores.scheme import sqlalchemy_form

_SCHEMES = ("postgresql", "postgres")
_FORM = "it should look like postgresql://user:password@host:5432/database"
_SHOWN = ("host", "port", "user", "dbname", "sslmode", "sslrootcert", "target_session_attrs")
"""The parameters that identify a database and never hold a password."""
_WHICH_SERVER = ("host", "port", "target_session_attrs")
_ROLES = ("any", "primary", "standby", "prefer-standby", "read-write", "read-only")


class ServerAddress(NamedTuple):
    """One server of a URL. For a part that is None, PostgreSQL's own variables and defaults apply."""

    host: str | None
    port: int | None

    def __str__(self) -> str:
        return self._with(self.host or "")

    @property
    def quoted(self) -> str:
        """The address in the form that a URL needs."""
        return self._with(quote(self.host or "", safe="" if self._is_directory else ":"))

    @property
    def _is_directory(self) -> bool:
        return (self.host or "").startswith("/")

    def _with(self, host: str) -> str:
        whole = f"[{host}]" if ":" in host and not self._is_directory else host
        return whole if self.port is None else f"{whole}:{self.port}"


def checked(url: str) -> str:
    """Returns the URL unchanged. Raises ConfigurationError if it cannot be used, without repeating a password."""
    if not url:
        raise ConfigurationError("No database was named: set INTERLOCK_DATABASE_URL or pass --database.")
    scheme = url.partition(":")[0] if "://" in url else ""
    if "+" in scheme:
        raise ConfigurationError(sqlalchemy_form(scheme))
    if scheme.lower() not in _SCHEMES:
        shown = f"begins with {scheme + '://'!r}" if scheme else "has no scheme"
        raise ConfigurationError(f"The database URL {shown}: {_FORM}.")
    if not _is_readable(url):
        raise ConfigurationError(
            f"The database URL cannot be read: {_FORM}, where / ? # and @ in a password are %2F %3F %23 and %40, "
            "several hosts are separated by commas, and parameters are ?name=value&name=value."
        )
    if target_session_attrs(url) not in (None, *_ROLES):
        raise ConfigurationError(
            f"The target_session_attrs of the database URL has to be one of {', '.join(_ROLES)}: use read-write."
        )
    return url


def redacted(url: str) -> str:
    """Returns the URL for messages and logs, without its password and without parameters that may hold a password.

    The result still works as a URL if the password is given in another way.
    """
    if not _is_readable(url):
        return "a URL that cannot be read"
    parts = urlsplit(url)
    user = f"{quote(unquote(parts.username))}@" if parts.username else ""
    address = parts.netloc.rpartition("@")[2]
    kept = urlencode({name: value for name, value in _parameters(parts).items() if name in _SHOWN}, safe="/,")
    return f"{parts.scheme}://{user}{address}{parts.path}{'?' * bool(kept)}{kept}"


def addresses(url: str) -> tuple[ServerAddress, ...]:
    """Returns the servers of a readable URL in their order, from its address or its parameters.

    A URL without a server gives one address whose parts are None.
    """
    parts = urlsplit(url)
    parameters = _parameters(parts)
    netloc = parts.netloc.rpartition("@")[2]
    texts = (netloc or parameters.get("host", "")).split(",")
    if len(texts) > 1 and "" in texts:
        raise ValueError
    found = [_address(text, quoted=bool(netloc)) for text in texts]
    ports = _ports(parameters.get("port"), len(found))
    return tuple(ServerAddress(host, port or usual) for (host, port), usual in zip(found, ports, strict=True))


def one_by_one(url: str) -> dict[ServerAddress, str]:
    """Returns a URL for each single server of a readable URL. These URLs accept a primary or a standby."""
    parts = urlsplit(url)
    role, at, _ = parts.netloc.rpartition("@")
    query = urlencode({name: value for name, value in _parameters(parts).items() if name not in _WHICH_SERVER})
    rest = f"{parts.path}?{query}" if query else parts.path
    return {address: f"{parts.scheme}://{role}{at}{address.quoted}{rest}" for address in addresses(url)}


def target_session_attrs(url: str) -> str | None:
    """Returns the parameter `target_session_attrs` of a readable URL, if the URL has one."""
    return _parameters(urlsplit(url)).get("target_session_attrs")


def to_the_primary(url: str) -> str:
    """Returns a URL that asks for the server that takes writes, if `url` names several servers and no role."""
    if len(addresses(url)) == 1 or target_session_attrs(url):
        return url
    return f"{url}{'&' if urlsplit(url).query else '?'}target_session_attrs=read-write"


def _is_readable(url: str) -> bool:
    """False for a URL that is malformed, or has an unquoted / ? or # in its password.

    Such a character ends the address too early, and the rest of the password would be shown.
    """
    try:
        parts = urlsplit(url)
        addresses(url)
    except ValueError:  # not passed on: it quotes the text in place of the port
        return False
    return "@" not in parts.path + parts.fragment + parts.query.partition("=")[0]


def _parameters(parts: SplitResult) -> dict[str, str]:
    """Returns the parameters as the driver reads them. Raises ValueError for text that the driver would quote."""
    found = parse_qs(parts.query, strict_parsing=True) if parts.query else {}
    return {name: values[-1] for name, values in found.items()}


def _address(text: str, *, quoted: bool) -> ServerAddress:
    """Reads `host`, `host:port`, `[::1]:port` or the directory of a socket. Host and port may both be missing."""
    if text.startswith("/"):
        return ServerAddress(text, None)
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not host or not closed or rest[:1] not in ("", ":"):
            raise ValueError
        return ServerAddress(host, _port(rest[1:]))
    host, _, port = text.partition(":")
    return ServerAddress((unquote(host) if quoted else host) or None, _port(port))


def _ports(given: str | None, count: int) -> list[int | None]:
    """Reads the parameter `port`, which has one port for each server, or one port for all servers."""
    ports = [_port(port) for port in (given or "").split(",")]
    if len(ports) not in (1, count):
        raise ValueError
    return ports if len(ports) == count else ports * count


def _port(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) > 65535:
        raise ValueError
    return int(text)
