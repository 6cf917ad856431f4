"""The cluster's certificate: a self-signed one to begin with, and any other later."""

import socket
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from interlock.embedded.address import LOOPBACK
from interlock.errors import ConfigurationError, TlsUnavailable

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

HOST_NAME = "localhost"
ADDRESSES = (LOOPBACK, "::1")
_LIFETIME = timedelta(days=3650)  # nothing renews it
_CLOCK_SKEW = timedelta(days=1)
# Length and code of PostgreSQL's SSLRequest message.
_SSL_REQUEST = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")


def has_certificate_maker() -> bool:
    """Whether the optional package `cryptography` is installed."""
    try:
        import cryptography.x509  # noqa: F401
    except ImportError:
        return False
    return True


def self_signed(host_names: Sequence[str] = ()) -> tuple[bytes, bytes]:
    """A certificate for this machine's loopback addresses and these names, and its private key, both as PEM."""
    need_certificate_maker()
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _builder(key.public_key(), host_names).sign(key, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def check_pair(certificate: bytes, key: bytes) -> bytes:
    """The first certificate as DER. Raises ConfigurationError if either is not PEM, or they do not belong together."""
    need_certificate_maker()
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

    try:
        leaf = x509.load_pem_x509_certificates(certificate)[0]
        certified, public = leaf.public_key(), load_pem_private_key(key, password=None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigurationError(
            "The certificate and its key have to be PEM, the key without a pass phrase: convert them first."
        ) from error
    if certified != public:
        raise ConfigurationError("The certificate was not made for this private key: give the two that belong.")
    return leaf.public_bytes(Encoding.DER)


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


def need_certificate_maker() -> None:
    """Raises TlsUnavailable without the optional package `cryptography`."""
    if not has_certificate_maker():
        raise TlsUnavailable("TLS needs the package cryptography: pip install 'interlock[embedded]'.")


def _builder(key: "ec.EllipticCurvePublicKey", host_names: Sequence[str]) -> "x509.CertificateBuilder":
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST_NAME)])
    hosts = (x509.DNSName(host) for host in (HOST_NAME, *host_names))
    names = [*hosts, *(x509.IPAddress(ip_address(address)) for address in ADDRESSES)]
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key, x509.random_serial_number())
    builder = builder.not_valid_before(now - _CLOCK_SKEW).not_valid_after(now + _LIFETIME)
    # Clients trust it as its own authority, and strict ones want it to say that it may sign.
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    # All of them have one name: clients that trust several tell by this which is meant.
    builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key), critical=False)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return builder.add_extension(x509.SubjectAlternativeName(names), critical=False)


def _key_usage() -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
