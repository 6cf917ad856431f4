"""Giving a cluster its certificate. Whoever calls this holds the cluster's control lock."""

import os
import signal
from collections.abc import Sequence

from interlock.embedded.accounts import Account
from interlock.embedded.binaries import Binaries
from interlock.embedded.files import write_whole
from interlock.embedded.layout import Layout
from interlock.embedded.postmaster import live_postmaster
from interlock.embedded.processes import wait_until
from interlock.embedded.running import tail_of
from interlock.embedded.tls import has_certificate_maker, self_signed, served_certificate
from interlock.errors import ClusterFailed, TlsUnavailable

_RELOAD_TIMEOUT = 10.0


def need_tls(binaries: Binaries) -> None:
    """Raises TlsUnavailable if these binaries have no TLS."""
    if not binaries.has_tls:
        raise TlsUnavailable(
            f"PostgreSQL in {binaries.bin_dir} is built without TLS: do without it, or set INTERLOCK_PG_BIN to one "
            "that has it."
        )


def will_have_tls(wanted: bool | None, layout: Layout, binaries: Binaries) -> bool:
    """What `wanted` comes to here; None is "where available". Raises TlsUnavailable if it is True and cannot be had."""
    if wanted:
        need_tls(binaries)
        return True
    can_have_one = layout.secret_pem.exists() or has_certificate_maker()
    return wanted is None and binaries.has_tls and can_have_one


def ensure_certificate(layout: Layout, account: Account, host_names: Sequence[str] = ()) -> None:
    """Make a self-signed certificate unless there is one, of whatever kind."""
    if not layout.secret_pem.exists():
        install_certificate(layout, account, *self_signed(host_names))


def install_certificate(layout: Layout, account: Account, certificate: bytes, key: bytes) -> None:
    """Put the two where the server reads them, and the certificate where clients do."""
    write_whole(layout.secret_pem, key.rstrip() + b"\n" + certificate, account)
    write_whole(layout.certificate, certificate, account, mode=0o644)


def reload_certificate(layout: Layout, expected: bytes) -> None:
    """Have a running server take up its certificate; over TCP, return when it is the one that new clients see."""
    found = live_postmaster(layout.data)
    if found is None:
        return
    os.kill(found.pid, signal.SIGHUP)
    if not found.listens_on:
        return
    if not _has_tls_now(found.port):
        raise TlsUnavailable(f"The cluster in {layout.root} was started without TLS: stop it and start it with TLS.")
    if not wait_until(lambda: _serves(found.port, expected), timeout=_RELOAD_TIMEOUT):
        raise ClusterFailed(
            f"PostgreSQL in {layout.root} refused the new certificate and still serves the old one: see its log.",
            log_tail=tail_of(layout),
        )


def _has_tls_now(port: int) -> bool:
    try:
        return served_certificate(port) is not None
    except OSError:
        return True  # it began a handshake; how that goes on is seen when we wait for the certificate


def _serves(port: int, expected: bytes) -> bool:
    try:
        return served_certificate(port) == expected
    except OSError:
        return False
