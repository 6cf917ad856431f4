"""Issued certificates are accepted only if the server can serve them and clients can check them."""

from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from interlock.errors import BadSpec
from interlock.tls.certificate import Certificate
from interlock.tls.verification import checked
from support.certificate_authority import Authority, pem_of

AUTHORITY = Authority()
HOST = "127.0.0.1"
HOUR = timedelta(hours=1)
GOOD = AUTHORITY.issue()
WEAK = rsa.generate_private_key(65537, 1024)  # noqa: S505 - to be refused
OTHER = ed25519.Ed25519PrivateKey.generate()

BAD = {
    "no chain": (replace(GOOD, chain=""), "have to be PEM"),
    "a torn chain": (replace(GOOD, chain=GOOD.chain[:300]), "have to be PEM"),
    "no key": (replace(GOOD, key="secret"), "have to be PEM"),
    "another's key": (replace(GOOD, key=AUTHORITY.issue().key), "not made for this private key"),
    "no authority": (replace(GOOD, ca="anybody"), "is not PEM"),
    "another authority": (replace(GOOD, ca=Authority().ca), "does not lead to the authority"),
    "a gap in the chain": (
        replace(GOOD, chain=GOOD.chain[: GOOD.chain.index("-----END CERTIFICATE-----") + 26]),
        "does not lead to the authority",
    ),
    "over": (AUTHORITY.issue(begin=-2 * HOUR, end=-HOUR), "CN=shop is valid from .* so it is not valid now"),
    "not begun": (AUTHORITY.issue(begin=HOUR, end=2 * HOUR), "so it is not valid now"),
    "another address": (AUTHORITY.issue(addresses=["10.0.0.1"]), "not for 127.0.0.1, the host that clients connect to"),
    "no address": (AUTHORITY.issue(addresses=[]), "not for 127.0.0.1"),
    "a weak key": (
        AUTHORITY.issue(key=WEAK),
        "does not accept the certificate of CN=shop",
    ),
    "a weak curve": (AUTHORITY.issue(key=ec.generate_private_key(ec.SECP224R1())), "does not accept the certificate"),
    "a key of another kind": (
        AUTHORITY.issue(key=OTHER),
        "does not accept the certificate",
    ),
    "for clients only": (AUTHORITY.issue(use=ExtendedKeyUsageOID.CLIENT_AUTH), r"would not accept .*purpose"),
    "another digest": (AUTHORITY.issue(digest=hashes.SHA3_256()), "does not accept the certificate"),
}


@pytest.mark.parametrize("what", BAD)
def test_an_unusable_certificate_is_refused(what: str) -> None:
    certificate, words = BAD[what]
    with pytest.raises(BadSpec, match=words) as refusal:
        checked(certificate, HOST)
    assert "PRIVATE" not in str(refusal.value)


@pytest.mark.parametrize(
    "certificate",
    [
        GOOD,
        AUTHORITY.issue(key=rsa.generate_private_key(65537, 2048), digest=hashes.SHA384()),
        replace(GOOD, ca=None),
        replace(AUTHORITY.issue(addresses=[]), ca=None),
        replace(GOOD, ca=Authority().ca + AUTHORITY.ca),
    ],
)
def test_a_usable_certificate_is_taken_unchanged(certificate: Certificate) -> None:
    assert checked(certificate, HOST) == certificate


def test_nothing_else_is_taken_along() -> None:
    own = ec.generate_private_key(ec.SECP256R1())
    careless = AUTHORITY.issue(key=own)
    told = replace(careless, chain=f"Dear all,\n{pem_of(own)}{careless.chain}", ca=f"{pem_of(own)}{careless.ca}")

    assert checked(told, HOST) == careless


def test_its_key_is_not_shown() -> None:
    assert GOOD.key.splitlines()[1] not in repr(GOOD)
