"""The conversion of libpq's connection parameters into a URL, for adapters of tools with their own settings."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

# Other parameters concern only the tool's driver. Interlock's driver would take them for server settings.
_UNDERSTOOD = (
    *("host", "port", "service", "passfile", "options", "target_session_attrs", "krbsrvname", "gsslib"),
    *("sslmode", "sslnegotiation", "sslcert", "sslkey", "sslpassword", "sslrootcert", "sslcrl"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version"),
)


def plain_url(parameters: Mapping[str, object]) -> str:
    """Returns a ``postgresql://`` URL with libpq's connection parameters, percent-encoded.

    Without a host the URL leads to the local socket. The URL contains the password, so it must never be shown.
    """
    given = {name: str(value) for name, value in parameters.items() if value not in (None, "")}
    query = {name: value for name, value in given.items() if name in _UNDERSTOOD}
    host = _take_host(query)
    path = "/" + _quoted(given["dbname"]) if "dbname" in given else ""
    rest = "?" + urlencode(query, quote_via=quote) if query else ""
    return f"postgresql://{_user(given)}{host}{path}{rest}"


def _user(given: Mapping[str, str]) -> str:
    password = ":" + _quoted(given["password"]) if "password" in given else ""
    return f"{_quoted(given.get('user', ''))}{password}@" if "user" in given or password else ""


def _take_host(query: dict[str, str]) -> str:
    """Take a single host and its port out of the query. Returns them as the URL's host, which messages show.

    A socket or a list of hosts stays in the query, because it cannot be the URL's host.
    """
    host = query.get("host", "")
    if not host or "/" in host or "," in host or not query.get("port", "0").isdecimal():
        return ""
    del query["host"]
    port = query.pop("port", None)
    return (f"[{host}]" if ":" in host else _quoted(host)) + (f":{port}" if port else "")


def _quoted(text: str) -> str:
    return quote(text, safe="")
