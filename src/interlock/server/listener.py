"""The socket that the control plane listens on."""

import errno
import json
import socket
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from interlock.errors import AddressInUse, ConfigurationError, InterlockError
from interlock.server.replica_file import live_replicas

_BACKLOG = 512
_PROBE_TIMEOUT = 1.0
_PROBE_BYTES = 10_000


def listen(host: str, port: int, data_dir: Path | None = None) -> socket.socket:
    """Returns a listening socket: a client that connects from now on waits for its answer and is not refused.

    A name with several addresses is resolved to the first address. Raises AddressInUse if another process has the port;
    the message names that process if it is a replica on `data_dir`. Raises ConfigurationError if this machine cannot
    listen on the address.
    """
    family, address = _resolved(host, port)
    try:
        listener = socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        raise _explained(error, host, port, _url(family, address), data_dir) from error
    # Accepted connections inherit this. asyncio sets it only on sockets that it created; without it an answer waits
    # 40 ms for an ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def page_url(listener: socket.socket) -> str:
    """The URL of the home page for a browser on this machine."""
    return _url(listener.family, listener.getsockname()[:2])


def _url(family: int, address: tuple[str, int]) -> str:
    host, port = address
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not listened on
        host = "127.0.0.1" if family == socket.AF_INET else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _resolved(host: str, port: int) -> tuple[int, tuple[str, int]]:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(
            f"host is {host!r}, which is neither an IP address nor a host name that this machine can resolve: "
            "choose another host with --host."
        ) from error
    return family, (str(address[0]), int(address[1]))


def _explained(error: OSError, host: str, port: int, url: str, data_dir: Path | None) -> InterlockError:
    match error.errno:
        case errno.EADDRINUSE:
            return AddressInUse(f"Port {port} on {host} is used by {_occupant(url, data_dir)}.")
        case errno.EACCES:
            return ConfigurationError(
                f"Only a privileged user may listen on port {port}: choose a port above 1023 with --port."
            )
        case errno.EADDRNOTAVAIL:
            return ConfigurationError(f"{host} is not an address of this machine: choose another address with --host.")
        case _:
            return ConfigurationError(
                f"Cannot listen on port {port} of {host} ({error.strerror}): choose another address with --host, or "
                "another port with --port."
            )


def _occupant(url: str, data_dir: Path | None) -> str:
    """Returns the end of an error message: the program that has the port, and the remedy."""
    replicas = live_replicas(data_dir) if data_dir else []
    if pid := next((replica.pid for replica in replicas if replica.url == url), None):
        return (
            f"the `interlock up` that runs on {data_dir} already (process {pid}): use that replica, stop it with "
            f"`kill {pid}`, or choose another port with --port"
        )
    if _is_interlock(url):
        return f"another `interlock up`, whose page is {url}: stop that replica, or choose another port with --port"
    return "another program: stop that program, or choose another port with --port"


def _is_interlock(url: str) -> bool:
    """Returns True if a control plane answers at the URL, ready or not."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=_PROBE_TIMEOUT)
    with closing(connection), suppress(OSError, HTTPException, ValueError):
        connection.request("GET", "/health/startup")
        answer = json.loads(connection.getresponse().read(_PROBE_BYTES))
        return isinstance(answer, dict) and {"phase", "since"} <= answer.keys()
    return False
