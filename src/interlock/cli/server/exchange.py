"""One request to one server and the head of its answer, with Python's own HTTP client.

It needs no package, and is imported in milliseconds. Certificates are always checked, nothing is redirected, and no
proxy of the environment is used: a key goes to the server that is named, or nowhere.
"""

import socket
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection, IncompleteRead
from typing import NamedTuple
from urllib.parse import urlsplit

from interlock.errors import ConfigurationError

TIMEOUT = 30.0
"""Seconds. An answer may have to wait for the same request, which is being carried out already."""

_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
"""What OpenSSL calls an answer in plain text, from one version to the next."""


class HttpRequest(NamedTuple):
    method: str
    target: str
    body: bytes | None
    headers: Mapping[str, str]


def answered(url: str, request: HttpRequest, timeout: float, silence: float | None) -> HTTPResponse:
    """`silence`: so long may pass without a byte of the body. Raises OSError or HTTPException."""
    connection, prefix = _connection(url, timeout)
    try:
        connection.connect()
        line = connection.sock
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # whoever reads in silence hears of its end
        connection.request(request.method, prefix + request.target, request.body, dict(request.headers))
    except UnicodeError:  # a host that no name server could be asked for, or a path that is none
        raise _no_address() from None
    response = connection.getresponse()
    line.settimeout(silence)
    return response


def reason(error: Exception) -> str:
    """In the words of the system, where it has any."""
    if getattr(error, "reason", None) in _NO_TLS:
        return "it speaks http and not https"
    if isinstance(error, IncompleteRead):
        return "it ended in the middle"
    return getattr(error, "verify_message", None) or getattr(error, "strerror", None) or str(error) or "no answer"


def _connection(url: str, timeout: float) -> tuple[HTTPConnection, str]:
    """And what every path there begins with."""
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
        "The control plane's address is not one: name it like https://interlock.example.com or http://127.0.0.1:8080, "
        "without a password in it."
    )
