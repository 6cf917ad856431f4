"""A migration tool's own database settings as a URL for the gate."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

# Everything else that a driver can be told concerns that driver. The gate's own would take it for a server setting.
_UNDERSTOOD = (
    *("host", "port", "service", "passfile", "options", "target_session_attrs", "krbsrvname", "gsslib"),
    *("sslmode", "sslnegotiation", "sslcert", "sslkey", "sslpassword", "sslrootcert", "sslcrl"),
    *("ssl_min_protocol_version", "ssl_max_protocol_version"),
)


def plain_url(parameters: Mapping[str, object]) -> str:
    """A ``postgresql://`` URL of libpq's connection parameters, everything in it percent-encoded.

    Without a host it leads to the local socket. It holds the password: it is for connecting, never for showing.
    """
    given = {name: str(value) for name, value in parameters.items() if value not in (None, "")}
    query = {name: value for name, value in given.items() if name in _UNDERSTOOD}
    where = _shown_host(query)
    path = "/" + _quoted(given["dbname"]) if "dbname" in given else ""
    rest = "?" + urlencode(query, quote_via=quote) if query else ""
    return f"postgresql://{_who(given)}{where}{path}{rest}"


def _who(given: Mapping[str, str]) -> str:
    password = ":" + _quoted(given["password"]) if "password" in given else ""
    return f"{_quoted(given.get('user', ''))}{password}@" if "user" in given or password else ""


def _shown_host(query: dict[str, str]) -> str:
    """A single host goes where messages show it. Sockets and lists of hosts have no form there, and stay parameters."""
    host = query.get("host", "")
    if not host or "/" in host or "," in host or not query.get("port", "0").isdecimal():
        return ""
    del query["host"]
    port = query.pop("port", None)
    return (f"[{host}]" if ":" in host else _quoted(host)) + (f":{port}" if port else "")


def _quoted(text: str) -> str:
    return quote(text, safe="")
