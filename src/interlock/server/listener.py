"""The socket that the control plane listens on."""

import errno
import socket

from interlock.errors import AddressInUse, ConfigurationError, InterlockError

_BACKLOG = 512


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens already: a client that connects from now on waits for its answer and is not refused.

    A name with several addresses is resolved to the first. Raises AddressInUse, or ConfigurationError if the address
    cannot be listened on at all.
    """
    family, address = _resolved(host, port)
    try:
        listener = socket.create_server(address, family=family, backlog=_BACKLOG)
    except OSError as error:
        raise _explained(error, host, port) from error
    # Accepted connections inherit this. asyncio sets it only on sockets that it created; without it an answer waits
    # 40 ms for an ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def page_url(listener: socket.socket) -> str:
    """The URL of the home page for a browser on this machine."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not listened on
        host = "127.0.0.1" if listener.family == socket.AF_INET else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _resolved(host: str, port: int) -> tuple[int, tuple[str, int]]:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(
            f"host is {host!r}, which is neither an IP address nor a host name that this machine can resolve: "
            "choose another with --host."
        ) from error
    return family, (str(address[0]), int(address[1]))


def _explained(error: OSError, host: str, port: int) -> InterlockError:
    match error.errno:
        case errno.EADDRINUSE:
            return AddressInUse(
                f"Port {port} on {host} is used by another program: stop that program, "
                "or choose another port with --port."
            )
        case errno.EACCES:
            return ConfigurationError(
                f"Only a privileged user may listen on port {port}: choose a port above 1023 with --port."
            )
        case errno.EADDRNOTAVAIL:
            return ConfigurationError(f"{host} is not an address of this machine: choose another with --host.")
        case _:
            return ConfigurationError(
                f"Cannot listen on port {port} of {host} ({error.strerror}): choose others with --host and --port."
            )
