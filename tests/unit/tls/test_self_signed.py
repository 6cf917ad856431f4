import ssl
from pathlib import Path

import pytest

from interlock.errors import ConfigurationError, TlsUnavailable
from interlock.tls import certificate as availability
from interlock.tls.certificate import check_pair
from interlock.tls.self_signed import self_signed


def test_a_self_signed_certificate_and_its_key_belong_together() -> None:
    assert check_pair(*self_signed())


def test_a_certificate_with_the_key_of_another_is_refused() -> None:
    certificate, _ = self_signed()
    _, key = self_signed()

    with pytest.raises(ConfigurationError, match="not made for this private key"):
        check_pair(certificate, key)


def test_a_certificate_that_is_not_pem_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="PEM"):
        check_pair(b"certificate", b"key")


def test_without_the_package_that_makes_certificates_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(availability, "has_cryptography", lambda: False)

    with pytest.raises(TlsUnavailable, match=r"interlock\[embedded\]"):
        self_signed()


def test_clients_that_trust_several_know_each_of_them(tmp_path: Path) -> None:
    pairs = [self_signed() for _ in range(4)]
    trusting = ssl.create_default_context(cadata="".join(certificate.decode() for certificate, _ in pairs))
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    for number, (certificate, key) in enumerate(pairs):
        file = tmp_path / f"{number}.pem"
        file.write_bytes(key + certificate)
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(file)
        assert _seen(trusting, serving) == ssl.PEM_cert_to_DER_cert(certificate.decode())


def _seen(trusting: ssl.SSLContext, serving: ssl.SSLContext) -> bytes | None:
    """The certificate that a client has checked and taken."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname="localhost")
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return client.getpeercert(binary_form=True)
