"""A database's URL may be shown; what is secret in it may not."""

import pytest

from interlock.errors import ConfigurationError
from interlock.stores.postgres import redacted
from interlock.stores.postgres.url import checked


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://web:geheim@db:5433/shop", "postgresql://web@db:5433/shop"),
        ("postgres://web:geheim@db/shop?sslmode=require&password=geheim", "postgres://web@db/shop"),
        ("postgresql://db/shop", "postgresql://db/shop"),
        ("postgresql:///shop?host=/tmp", "postgresql:///shop"),
        ("postgresql://web:geheim@%2Frun%2FPostgres/shop", "postgresql://web@/run/Postgres/shop"),
        ("postgresql://web:geheim@[::1]:5432/shop", "postgresql://web@[::1]:5432/shop"),
        ("postgresql://w%40b:ge%2Fheim@db/shop", "postgresql://w%40b@db/shop"),
        ("postgresql://web:ge@heim@db/shop", "postgresql://web@db/shop"),
        ("postgresql://:geheim@db/shop", "postgresql://db/shop"),
        ("postgresql://web:geheim@db/shop#geheim", "postgresql://web@db/shop"),
    ],
)
def test_what_is_shown_is_user_address_and_database(url: str, shown: str) -> None:
    assert redacted(url) == shown
    assert checked(url) == url


@pytest.mark.parametrize("secret", ["ge/heim", "ge?heim", "ge#heim", "12/geheim", "12?geheim", "12#geheim"])
@pytest.mark.parametrize("user", ["web", "web@corp"])
def test_a_password_that_breaks_the_url_is_not_shown_in_pieces(user: str, secret: str) -> None:
    url = f"postgresql://{user}:{secret}@db/shop"
    with pytest.raises(ConfigurationError, match=r"cannot be read: .* are %2F %3F %23 and %40") as refusal:
        checked(url)
    for said in (str(refusal.value), redacted(url)):
        assert "heim" not in said
        assert "'ge" not in said


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "No database was named: set INTERLOCK_DATABASE_URL"),
        ("mysql://web:geheim@db/shop", "begins with 'mysql://': it should look like postgresql://"),
        ("web:geheim@db/shop", "has no scheme"),
        ("/var/lib/shop.db", "has no scheme"),
        ("web:geheim@db/shop?see=https://x", "begins with 'web://'"),
        ("postgresql://[::1/shop", "cannot be read"),
        ("postgresql://db:fivefour/shop", "cannot be read"),
        ("postgresql://db:99999/shop", "cannot be read"),
    ],
)
def test_what_is_no_postgresql_url_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as refusal:
        checked(url)
    assert "geheim" not in str(refusal.value)


def test_the_scheme_may_be_written_in_capitals() -> None:
    assert checked("PostgreSQL://db/shop")
