"""Chooses the sslmode, as libpq defines it, with which clients can check the TLS of a server."""

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from interlock.tls.certificate import has_cryptography, names_host

if TYPE_CHECKING:
    from cryptography import x509

Mode = Literal["verify-full", "verify-ca", "require"]


@lru_cache(maxsize=1024)
def sslmode(host: str, ca: str | None) -> Mode:
    """Returns the strictest mode that works for the server's `host` and `ca`, the certificate (PEM) that clients get.

    Without a `ca`, clients check nothing. If `ca` is the server's own certificate, only that server can show it, under
    any name. So for an address that did not exist when the certificate was made, such as a load balancer's, clients
    check the certificate alone. An authority may have issued other certificates: then clients have to check the name.
    """
    if not ca:
        return "require"
    own = _only_server(ca)
    return "verify-full" if own is None or names_host(own, host) else "verify-ca"


def _only_server(ca: str) -> "x509.Certificate | None":
    """Returns the certificate, if `ca` is one single certificate of a server."""
    if not has_cryptography():
        return None
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        [certificate] = x509.load_pem_x509_certificates(ca.encode())
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (ValueError, x509.DuplicateExtension, x509.ExtensionNotFound):
        return None
    return certificate if ExtendedKeyUsageOID.SERVER_AUTH in uses else None
