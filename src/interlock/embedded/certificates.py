"""Changes the certificate of a cluster. The caller has to hold the cluster's control lock.

The server reads one file, which is replaced as a whole: after a crash the key still belongs to the certificate, and the
server can start. During the change, clients trust the old and the new certificate, because the server may show either.
"""

import os
import signal
import socket
import ssl
from collections.abc import Sequence

from interlock.embedded.accounts import Account
from interlock.embedded.address import LOOPBACK
from interlock.embedded.binaries import Binaries
from interlock.embedded.files import write_whole
from interlock.embedded.lifecycle import tail_of
from interlock.embedded.paths import ClusterPaths
from interlock.embedded.postmaster import live_postmaster
from interlock.embedded.processes import wait_until
from interlock.errors import ClusterFailed, TlsUnavailable
from interlock.logs import events
from interlock.tls.certificate import check_pair, has_cryptography
from interlock.tls.self_signed import self_signed

log = events(__name__)

_BEGIN = b"-----BEGIN CERTIFICATE-----"
_RELOAD_TIMEOUT = 10.0
# Length and code of PostgreSQL's SSLRequest message.
_SSL_REQUEST = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")


def need_tls(binaries: Binaries) -> None:
    """Raises TlsUnavailable if these binaries have no TLS."""
    if not binaries.has_tls:
        raise TlsUnavailable(
            f"PostgreSQL in {binaries.bin_dir} is built without TLS: do without TLS, or set INTERLOCK_PG_BIN to a "
            "PostgreSQL with TLS."
        )


def will_have_tls(wanted: bool | None, paths: ClusterPaths, binaries: Binaries) -> bool:
    """Returns True if the cluster will have TLS. `wanted=None` means: if available.

    Raises TlsUnavailable if `wanted` is True and the binaries have no TLS.
    """
    if wanted:
        need_tls(binaries)
        return True
    can_have_one = paths.secret_pem.exists() or has_cryptography()
    return wanted is None and binaries.has_tls and can_have_one


def ensure_certificate(paths: ClusterPaths, account: Account, host_names: Sequence[str] = ()) -> None:
    """Make a self-signed certificate, unless the cluster already has any certificate."""
    if not paths.secret_pem.exists():
        certificate, key = self_signed(host_names)
        _write_clients_file(
            paths, account, certificate
        )  # first: once the other file exists, this function makes nothing
        write_whole(paths.secret_pem, _joined(certificate, key), account)


def change_certificate(paths: ClusterPaths, account: Account, certificate: bytes, key: bytes, authority: bytes) -> None:
    """Change the certificate, and return when new clients see the new one.

    Clients check the certificate with `authority`; if it is empty, with the authorities that they trust. Raises
    ConfigurationError if `certificate` and `key` do not belong together, or TlsUnavailable if the server was started
    without TLS. Then nothing is changed.
    """
    expected = check_pair(certificate, key)
    _check_tls_now(paths)
    if not paths.own_pem.exists() and paths.secret_pem.exists():
        write_whole(paths.own_pem, paths.secret_pem.read_bytes(), account)
        _did(paths, "own certificate kept")
    _write_clients_file(paths, account, _either(_clients_file(paths), authority))
    _did(paths, "clients told of both")
    write_whole(paths.secret_pem, _joined(certificate, key), account)
    _did(paths, "certificate written")
    _reload(paths, expected)
    _did(paths, "certificate served")
    _write_clients_file(paths, account, authority)
    _did(paths, "clients told of the new one alone")


def own_certificate(paths: ClusterPaths) -> tuple[bytes, bytes]:
    """Returns the certificate that the cluster made for itself, and the key of this certificate."""
    found = paths.own_pem if paths.own_pem.exists() else paths.secret_pem
    key, begin, rest = found.read_bytes().partition(_BEGIN)
    return begin + rest, key


def _check_tls_now(paths: ClusterPaths) -> None:
    """Raises TlsUnavailable if the server runs without TLS."""
    found = live_postmaster(paths.data)
    if found is not None and found.listens_on and not _has_tls_now(found.port):
        raise TlsUnavailable(
            f"The cluster in {paths.root} was started without TLS: stop the cluster and start it with TLS."
        )


def _reload(paths: ClusterPaths, expected: bytes) -> None:
    """Make a running server load its certificate. If the server listens on TCP, wait until new clients see it."""
    found = live_postmaster(paths.data)
    if found is None:
        return
    os.kill(found.pid, signal.SIGHUP)
    if not found.listens_on:
        return
    if not wait_until(lambda: _serves(found.port, expected), timeout=_RELOAD_TIMEOUT):
        raise ClusterFailed(
            f"PostgreSQL in {paths.root} refused the new certificate and still serves the old one: see {paths.log}.",
            log_tail=tail_of(paths),
        )


def _joined(certificate: bytes, key: bytes) -> bytes:
    return key.rstrip() + b"\n" + certificate


def _clients_file(paths: ClusterPaths) -> bytes:
    return paths.certificate.read_bytes() if paths.certificate.exists() else b""


def _write_clients_file(paths: ClusterPaths, account: Account, authority: bytes) -> None:
    write_whole(paths.certificate, authority, account, mode=0o644)


def _either(old: bytes, new: bytes) -> bytes:
    """Returns the content of a file to check both certificates with.

    If clients check one of them with the authorities that they trust, the content is empty for the moment.
    """
    if not old or not new:
        return b""
    return old if new in old else old.rstrip() + b"\n" + new


def _did(paths: ClusterPaths, step: str) -> None:
    log.debug("cluster.certificate_step", extra={"root": str(paths.root), "step": step})


def _has_tls_now(port: int) -> bool:
    try:
        return served_certificate(port) is not None
    except OSError:
        return True  # it began a handshake; the later wait for the certificate shows the result


def _serves(port: int, expected: bytes) -> bool:
    try:
        return served_certificate(port) == expected
    except OSError:
        return False


def served_certificate(port: int) -> bytes | None:
    """Returns the certificate, as DER, that the server on this machine's `port` shows to a new connection.

    Returns None if the server has no TLS.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection((LOOPBACK, port), timeout=5) as plain:
        plain.sendall(_SSL_REQUEST)
        if plain.recv(1) != b"S":
            return None
        with context.wrap_socket(plain) as secure:
            return secure.getpeercert(binary_form=True)
