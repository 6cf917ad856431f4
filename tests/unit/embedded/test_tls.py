import pytest

from interlock.embedded import tls
from interlock.embedded.tls import check_pair, self_signed
from interlock.errors import ConfigurationError, TlsUnavailable


def test_a_self_signed_certificate_and_its_key_belong_together() -> None:
    assert check_pair(*self_signed())


def test_a_certificate_with_the_key_of_another_is_refused() -> None:
    certificate, _ = self_signed()
    _, key = self_signed()

    with pytest.raises(ConfigurationError, match="not made for this private key"):
        check_pair(certificate, key)


def test_what_is_not_pem_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="PEM"):
        check_pair(b"certificate", b"key")


def test_without_the_package_that_makes_certificates_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tls, "has_certificate_maker", lambda: False)

    with pytest.raises(TlsUnavailable, match=r"interlock\[embedded\]"):
        self_signed()
