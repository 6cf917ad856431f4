"""Sends one HTTP request to one server, with Python's own client, which needs no package and loads in milliseconds.

Certificates are always checked, redirects are not followed, and no proxy of the environment is used, so that a key is
sent only to the server that is named.
"""

import socket
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import NamedTuple
from urllib.parse import urlsplit

from interlock.errors import ConfigurationError

TIMEOUT = 30.0
"""Seconds. An answer may have to wait until the server has carried out an earlier attempt of the same request."""

_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
"""OpenSSL's reasons for an answer in plain text; the reasons differ between versions of OpenSSL."""


class HttpRequest(NamedTuple):
    method: str
    target: str
    body: bytes | None
    headers: Mapping[str, str]


def send(url: str, request: HttpRequest, timeout: float, read_timeout: float | None) -> HTTPResponse:
    """Send the request. Returns the answer, whose body is not read yet. Raises OSError or HTTPException.

    `read_timeout` is the longest time without a byte of the body; None means: no limit.
    """
    connection, prefix = _connection(url, timeout)
    try:
        connection.connect()
        stream = connection.sock
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # ends a read from a server that has vanished
        connection.request(request.method, prefix + request.target, request.body, dict(request.headers))
    except UnicodeError:  # a host name that DNS cannot have, or a path that HTTP cannot have
        raise _no_address() from None
    response = connection.getresponse()
    stream.settimeout(read_timeout)
    return response


def reason(error: Exception) -> str:
    """Returns the system's text for the error, or the error's own text if the system has none."""
    if getattr(error, "reason", None) in _NO_TLS:
        return "the server speaks http and not https"
    if isinstance(error, IncompleteRead):
        return "the answer ended in the middle"
    return getattr(error, "verify_message", None) or getattr(error, "strerror", None) or str(error) or "no answer"


def _connection(url: str, timeout: float) -> tuple[HTTPConnection, str]:
    """Returns a connection that is not open yet, and the prefix of every path on the server."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _no_address() from None
    if not host or parts.username or parts.query or parts.fragment:
        raise _no_address()
    if parts.scheme == "http":
        return HTTPConnection(host, port, timeout=timeout), parts.path
    if parts.scheme != "https":
        raise _no_address()
    import ssl

    return HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context()), parts.path


def _no_address() -> ConfigurationError:
    return ConfigurationError(
        "The control plane's address is not valid: write it like https://interlock.example.com or "
        "http://127.0.0.1:8080, without a password in it."
    )
