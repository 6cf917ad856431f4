"""A certificate authority that issues valid and invalid certificates for instances of this machine."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from interlock.tls.certificate import Certificate

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
Digest = hashes.SHA256 | hashes.SHA384 | hashes.SHA3_256
_DAY = timedelta(days=1)


class Authority:
    """A root, and an intermediate authority that issues the certificates."""

    def __init__(self) -> None:
        self._root_key, self._key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        self.root = _made("root", self._root_key, "root", self._root_key, may_sign=True)
        self.between = _made("between", self._key, "root", self._root_key, may_sign=True)

    @property
    def ca(self) -> str:
        return _pem(self.root)

    def issue(
        self,
        *,
        addresses: Sequence[str] = ("127.0.0.1",),
        key: Key | None = None,
        begin: timedelta = -_DAY,
        end: timedelta = _DAY,
        digest: Digest | None = None,
        use: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
    ) -> Certificate:
        """`begin` and `end` are relative to now."""
        own = key or ec.generate_private_key(ec.SECP256R1())
        leaf = _made(
            "shop",
            own,
            "between",
            self._key,
            addresses=addresses,
            begin=begin,
            end=end,
            digest=digest,
            use=use,
        )
        return Certificate(_pem(leaf) + _pem(self.between), pem_of(own), self.ca)


def pem_of(key: Key) -> str:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form).decode()


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _made(
    name: str,
    key: Key,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    may_sign: bool = False,
    addresses: Sequence[str] = (),
    begin: timedelta = -_DAY,
    end: timedelta = _DAY,
    digest: Digest | None = None,
    use: x509.ObjectIdentifier = ExtendedKeyUsageOID.SERVER_AUTH,
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(_named(issuer), _named(name), key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now + begin).not_valid_after(now + end)
    builder = builder.add_extension(x509.BasicConstraints(ca=may_sign, path_length=None), critical=True)
    builder = builder.add_extension(_usage(may_sign=may_sign), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    known_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = builder.add_extension(known_by, critical=False)
    if not may_sign:
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        hosts = [x509.DNSName("shop.example.org"), *(x509.IPAddress(ip_address(each)) for each in addresses)]
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    return builder.sign(issuer_key, digest or hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, may_sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=may_sign,
        crl_sign=may_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
