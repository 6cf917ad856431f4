"""Where a cluster listens on this machine, and the certificate that it serves there."""

import socket
import ssl

from interlock.embedded.address import LOOPBACK

ADDRESSES = (LOOPBACK, "::1")
# Length and code of PostgreSQL's SSLRequest message.
_SSL_REQUEST = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")


def served_certificate(port: int) -> bytes | None:
    """The certificate that the server on this machine's `port` shows to a new connection, as DER; None without TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection((ADDRESSES[0], port), timeout=5) as plain:
        plain.sendall(_SSL_REQUEST)
        if plain.recv(1) != b"S":
            return None
        with context.wrap_socket(plain) as secure:
            return secure.getpeercert(binary_form=True)
