"""How strictly clients can check the TLS of an instance: what libpq calls its sslmode."""

from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Literal

from interlock.embedded.tls import has_certificate_maker

if TYPE_CHECKING:
    from cryptography import x509

Mode = Literal["verify-full", "verify-ca", "require"]


@lru_cache(maxsize=1024)
def sslmode(host: str, ca: str | None) -> Mode:
    """`host` is where they connect, `ca` the certificate (PEM) that they are given; without one they can check nothing.

    Where `ca` is the instance's own certificate, nobody but the instance can show it, whatever it is called. So one
    that is reached by an address that did not exist when its certificate was made, as a load balancer's, is checked by
    that alone. An authority that may have issued others is no proof without the name.
    """
    if not ca:
        return "require"
    own = _only_server(ca)
    return "verify-full" if own is None or _names(own, host) else "verify-ca"


def _only_server(ca: str) -> "x509.Certificate | None":
    """The certificate, if it is one alone, and a server's."""
    if not has_certificate_maker():
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


def _names(certificate: "x509.Certificate", host: str) -> bool:
    from cryptography import x509

    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    try:
        return ip_address(host) in names.get_values_for_type(x509.IPAddress)
    except ValueError:
        return host.lower() in map(str.lower, names.get_values_for_type(x509.DNSName))
