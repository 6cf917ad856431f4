"""An issued certificate and the hosts that it names, with the optional package `cryptography`."""

from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING

from interlock.errors import ConfigurationError, TlsUnavailable

if TYPE_CHECKING:
    from cryptography import x509


def has_cryptography() -> bool:
    try:
        import cryptography.x509  # noqa: F401
    except ImportError:
        return False
    return True


def need_cryptography() -> None:
    """Raises TlsUnavailable if the package `cryptography` is not installed."""
    if not has_cryptography():
        raise TlsUnavailable("TLS needs the package cryptography: pip install 'interlock[embedded]'.")


@dataclass(frozen=True, slots=True)
class Certificate:
    """The PEM texts of a certificate. `chain` has the certificate and those that lead to its authority.

    `ca` is the authority that clients check the certificate with; without it, clients use the authorities they trust.
    """

    chain: str
    key: str = field(repr=False)
    ca: str | None = None


def check_pair(certificate: bytes, key: bytes) -> bytes:
    """Returns the first certificate as DER.

    Raises ConfigurationError if `certificate` or `key` is not PEM, or if the two do not belong together.
    """
    need_cryptography()
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

    try:
        leaf = x509.load_pem_x509_certificates(certificate)[0]
        certified, public = leaf.public_key(), load_pem_private_key(key, password=None).public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigurationError(
            "The certificate and its key have to be PEM, the key without a pass phrase: convert both first."
        ) from error
    if certified != public:
        raise ConfigurationError(
            "The certificate was not made for this private key: pass a certificate with its own key."
        )
    return leaf.public_bytes(Encoding.DER)


def names_host(certificate: "x509.Certificate", host: str) -> bool:
    """True if the certificate is for `host`, which is an address or a name."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.DuplicateExtension, x509.ExtensionNotFound, ValueError):
        return False
    try:
        return ip_address(host) in names.get_values_for_type(x509.IPAddress)
    except ValueError:
        return host.lower() in map(str.lower, names.get_values_for_type(x509.DNSName))
