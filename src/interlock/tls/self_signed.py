"""Makes a self-signed certificate for a server on this machine. Clients trust the certificate as its own authority."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from interlock.tls.certificate import need_cryptography

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

_HOST_NAME = "localhost"
_ADDRESSES = ("127.0.0.1", "::1")
_LIFETIME = timedelta(days=3650)  # nothing renews it
_CLOCK_SKEW = timedelta(days=1)


def self_signed(host_names: Sequence[str] = ()) -> tuple[bytes, bytes]:
    """Returns a certificate for this machine's loopback addresses and these names, and its key, both as PEM."""
    need_cryptography()
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _builder(key.public_key(), host_names).sign(key, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(key: "ec.EllipticCurvePublicKey", host_names: Sequence[str]) -> "x509.CertificateBuilder":
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _HOST_NAME)])
    hosts = (x509.DNSName(host) for host in (_HOST_NAME, *host_names))
    names = [*hosts, *(x509.IPAddress(ip_address(address)) for address in _ADDRESSES)]
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key, x509.random_serial_number())
    builder = builder.not_valid_before(now - _CLOCK_SKEW).not_valid_after(now + _LIFETIME)
    # Clients trust it as its own authority, and strict ones require the statement that it may sign.
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    # All of them have one subject: clients that trust several distinguish them by this.
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
