"""The sslmode for an instance's TLS: with the host's name, unless that adds nothing."""

import pytest

from interlock.tls.self_signed import self_signed
from interlock.tls.sslmode import sslmode
from support.certificate_authority import Authority

OWN = self_signed(["pg-1.databases.svc", "Shop.example.com"])[0].decode()
AUTHORITY = Authority()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "pg-1.databases.svc", "shop.example.com"])
def test_a_host_that_the_certificate_names_is_checked(host: str) -> None:
    assert sslmode(host, OWN) == "verify-full"


@pytest.mark.parametrize("host", ["203.0.113.7", "2001:db8::7", "a1.elb.example.net"])
def test_a_load_balancer_is_known_by_the_instances_own_certificate(host: str) -> None:
    assert sslmode(host, OWN) == "verify-ca"


@pytest.mark.parametrize("ca", [AUTHORITY.ca, OWN + AUTHORITY.ca, OWN + self_signed()[0].decode(), "no certificate"])
def test_an_authority_is_no_proof_without_the_host_name(ca: str) -> None:
    assert sslmode("203.0.113.7", ca) == "verify-full"


@pytest.mark.parametrize("ca", [None, ""])
def test_without_a_certificate_nothing_can_be_checked(ca: str | None) -> None:
    assert sslmode("127.0.0.1", ca) == "require"
