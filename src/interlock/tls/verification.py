"""Verifies an issued certificate before it is used: a server has to be able to serve it, and clients to check it."""

import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from interlock.errors import BadSpec, ConfigurationError
from interlock.tls.certificate import Certificate, check_pair, names_host

if TYPE_CHECKING:
    from cryptography import x509

# OpenSSL refuses weaker ones, and the server would not start with them.
_SMALLEST_RSA, _SMALLEST_CURVE = 2048, 256
_DIGESTS = ("sha256", "sha384", "sha512")


def checked(certificate: Certificate, host: str) -> Certificate:
    """Returns the certificate without other parts of the PEM, which clients would see.

    `host` is the host that clients connect to. Raises BadSpec if the certificate cannot be used, or TlsUnavailable if
    the package that reads certificates is missing.
    """
    try:
        check_pair(certificate.chain.encode(), certificate.key.encode())
    except ConfigurationError as error:
        raise BadSpec(str(error)) from error
    chain = _certificates(certificate.chain)
    authorities = [] if certificate.ca is None else _certificates(certificate.ca)
    for each in (*chain, *authorities):
        _check_dates(each)
    _check_strength(chain)
    plain = Certificate(_pem(chain), _pem_of_key(certificate.key), _pem(authorities) or None)
    if authorities:
        if not names_host(chain[0], host):
            raise BadSpec(
                f"The certificate is not for {host}, the host that clients connect to: have a certificate issued that "
                "names this host."
            )
        _check_path(chain, authorities)
        _check_handshake(plain, host)
    return plain


def _certificates(pem: str) -> "list[x509.Certificate]":
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(pem.encode())
    except ValueError as error:
        raise BadSpec(f"A certificate or its authority is not PEM ({error}): convert it to PEM first.") from error


def _check_dates(certificate: "x509.Certificate") -> None:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not begin <= datetime.now(UTC) <= end:
        raise BadSpec(
            f"The certificate of {_name(certificate)} is valid from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} "
            "UTC, so it is not valid now: have another certificate issued."
        )


def _check_strength(chain: "Sequence[x509.Certificate]") -> None:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    for each in chain:
        key, digest = each.public_key(), each.signature_hash_algorithm
        strong = (isinstance(key, rsa.RSAPublicKey) and key.key_size >= _SMALLEST_RSA) or (
            isinstance(key, ec.EllipticCurvePublicKey) and key.key_size >= _SMALLEST_CURVE
        )
        if not strong or digest is None or digest.name not in _DIGESTS:
            raise BadSpec(
                f"PostgreSQL's TLS does not accept the certificate of {_name(each)}: have one issued for an RSA key "
                f"of {_SMALLEST_RSA} bits or a curve of {_SMALLEST_CURVE} bits, or more, signed with SHA-256 or better."
            )


def _check_path(chain: "Sequence[x509.Certificate]", authorities: "Sequence[x509.Certificate]") -> None:
    current: x509.Certificate | None = chain[0]
    for _ in chain:
        if current is None or any(current == one or _issued(current, one) for one in authorities):
            break
        current = next((one for one in chain if one != current and _issued(current, one)), None)
    else:
        current = None
    if current is None:
        raise BadSpec(
            "The certificate does not lead to the authority that was given: give the whole chain of certificates."
        )


def _check_handshake(certificate: Certificate, host: str) -> None:
    """Try a handshake in memory, for all other checks of a client, such as the permitted uses of the certificates."""
    client, server = ssl.create_default_context(cadata=certificate.ca), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        with NamedTemporaryFile("w") as file:  # ssl reads it only from files; only this user can read this one
            file.write(certificate.key + certificate.chain)
            file.flush()
            server.load_cert_chain(file.name)
        asking = client.wrap_bio(down, up, server_hostname=host)
        answering = server.wrap_bio(up, down, server_side=True)
        for side in (asking, answering, asking):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason or "TLS failed"
        raise BadSpec(f"Clients would not accept the certificate ({why}): have another certificate issued.") from error


def _issued(certificate: "x509.Certificate", issuer: "x509.Certificate") -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _pem(certificates: "Sequence[x509.Certificate]") -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)


def _pem_of_key(pem: str) -> str:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(pem.encode(), password=None)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form).decode()


def _name(certificate: "x509.Certificate") -> str:
    return certificate.subject.rfc4514_string() or "an empty subject"
