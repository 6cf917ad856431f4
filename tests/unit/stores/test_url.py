"""A database's URL may be shown; what is secret in it may not."""

import pytest

from interlock.errors import ConfigurationError
from interlock.stores.postgres import redacted
from interlock.stores.postgres.url import addresses, checked, one_by_one, target_session_attrs, to_the_primary


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://web:geheim@db:5433/shop", "postgresql://web@db:5433/shop"),
        ("postgres://web:geheim@db/shop?sslmode=require&password=geheim", "postgres://web@db/shop?sslmode=require"),
        ("postgresql://db/shop", "postgresql://db/shop"),
        ("postgresql:///shop?host=/tmp", "postgresql:///shop?host=/tmp"),
        ("postgresql://web:geheim@%2Frun%2FPostgres/shop", "postgresql://web@%2Frun%2FPostgres/shop"),
        ("postgresql://web:geheim@[::1]:5432/shop", "postgresql://web@[::1]:5432/shop"),
        ("postgresql://w%40b:ge%2Fheim@db/shop", "postgresql://w%40b@db/shop"),
        ("postgresql://web:ge@heim@db/shop", "postgresql://web@db/shop"),
        ("postgresql://:geheim@db/shop", "postgresql://db/shop"),
        ("postgresql://web:geheim@db/shop#geheim", "postgresql://web@db/shop"),
        ("postgresql://web:geheim@one:1,two:2/shop", "postgresql://web@one:1,two:2/shop"),
        (
            "postgresql://web:geheim@one,two/shop?target_session_attrs=read-write",
            "postgresql://web@one,two/shop?target_session_attrs=read-write",
        ),
        ("postgresql://web:geheim@[::1]:1,[::2]/shop", "postgresql://web@[::1]:1,[::2]/shop"),
        ("postgresql://web:geheim@%2Fone,%2Ftwo:2/shop", "postgresql://web@%2Fone,%2Ftwo:2/shop"),
        ("postgresql://web:ge,heim:1@one,two/shop", "postgresql://web@one,two/shop"),
        ("postgresql://web:geheim@/shop?host=one,two&port=1,2", "postgresql://web@/shop?host=one,two&port=1,2"),
        (
            "postgresql://web@db/shop?password=geheim&sslmode=require&sslpassword=geheim",
            "postgresql://web@db/shop?sslmode=require",
        ),
    ],
)
def test_the_redacted_url_shows_user_address_and_database(url: str, shown: str) -> None:
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
        ("postgresql+psycopg://web:geheim@db/shop", "SQLAlchemy's form: drop the '\\+psycopg', so that it begins with"),
        ("web:geheim@db/shop?see=https://x", "begins with 'web://'"),
        ("postgresql://[::1/shop", "cannot be read"),
        ("postgresql://db:fivefour/shop", "cannot be read"),
        ("postgresql://db:99999/shop", "cannot be read"),
        ("postgresql://web:geheim@one:1,two:geheim/shop", "cannot be read"),
        ("postgresql://web:geheim@one,,two/shop", "cannot be read"),
        ("postgresql://web:geheim@one,/shop", "cannot be read"),
        ("postgresql://web:geheim@one:1,two:99999/shop", "cannot be read"),
        ("postgresql://web:geheim@one:-1,two/shop", "cannot be read"),
        ("postgresql://web:geheim@one:²,two/shop", "cannot be read"),
        ("postgresql://web:geheim@[::1]:1,[]:2/shop", "cannot be read"),
        ("postgresql://web:geheim@[::1]:1,[::2/shop", "cannot be read"),
        ("postgresql://web:geheim@[::1]:1,[::2]x/shop", "cannot be read"),
        ("postgresql:///shop?host=one,,two", "cannot be read"),
        ("postgresql:///shop?host=one,two,three&port=1,2", "cannot be read"),
        ("postgresql:///shop?host=one&port=geheim", "cannot be read"),
        ("postgresql://web@db/shop?password=ge&heim", "cannot be read"),
        ("postgresql://web@db/shop?geheim", "cannot be read"),
        ("postgresql://web@db/shop?target_session_attrs=geheim", "has to be one of any, primary, .* use read-write"),
    ],
)
def test_other_urls_than_postgresqls_are_refused(url: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as refusal:
        checked(url)
    assert "heim" not in str(refusal.value)


def test_the_scheme_may_be_written_in_capitals() -> None:
    assert checked("PostgreSQL://db/shop")


@pytest.mark.parametrize(
    ("url", "servers"),
    [
        ("postgresql://web:geheim@db:5433/shop", [("db", 5433)]),
        ("postgresql://db/shop", [("db", None)]),
        ("postgresql:///shop", [(None, None)]),
        ("postgresql://web@:5433/shop", [(None, 5433)]),
        ("postgresql://one:1,two:2/shop", [("one", 1), ("two", 2)]),
        ("postgresql://one,two:2/shop", [("one", None), ("two", 2)]),
        ("postgresql://one,two:2/shop?port=3", [("one", 3), ("two", 2)]),
        ("postgresql://[::1]:1,[::2]/shop", [("::1", 1), ("::2", None)]),
        ("postgresql://%2Frun%2Fa%3Ab:1,two/shop", [("/run/a:b", 1), ("two", None)]),
        ("postgresql:///shop?host=/run/a:b,two:2", [("/run/a:b", None), ("two", 2)]),
        ("postgresql:///shop?host=one,two&port=1,2", [("one", 1), ("two", 2)]),
        ("postgresql:///shop?host=one,two&port=1", [("one", 1), ("two", 1)]),
        ("postgresql:///shop?host=one&host=two", [("two", None)]),
        ("postgresql://one/shop?host=two", [("one", None)]),
    ],
)
def test_the_servers_of_a_url_are_those_of_its_address_or_of_its_parameters(
    url: str, servers: list[tuple[str | None, int | None]]
) -> None:
    assert list(addresses(checked(url))) == servers


def test_a_url_may_say_which_of_its_servers_it_wants() -> None:
    assert target_session_attrs("postgresql://one,two/shop?target_session_attrs=read-write") == "read-write"
    assert target_session_attrs("postgresql://one,two/shop") is None


@pytest.mark.parametrize(
    ("url", "each"),
    [
        (
            "postgresql://web:geheim@one:1,two/shop?target_session_attrs=read-write&sslmode=require",
            ["postgresql://web:geheim@one:1/shop?sslmode=require", "postgresql://web:geheim@two/shop?sslmode=require"],
        ),
        (
            "postgresql://web:ge%2Fheim@/shop?host=/run/a:b,[::1]:2&port=1",
            ["postgresql://web:ge%2Fheim@%2Frun%2Fa%3Ab:1/shop", "postgresql://web:ge%2Fheim@[::1]:2/shop"],
        ),
        ("postgresql://%2Frun%2Fpg:5433/shop", ["postgresql://%2Frun%2Fpg:5433/shop"]),
        ("postgresql:///shop", ["postgresql:///shop"]),
    ],
)
def test_each_server_has_a_url_of_its_own(url: str, each: list[str]) -> None:
    assert list(one_by_one(checked(url)).values()) == each
    assert [addresses(alone) for alone in each] == [(address,) for address in addresses(url)]


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("postgresql://u@one/db", "postgresql://u@one/db"),
        ("postgresql://u@one,two/db", "postgresql://u@one,two/db?target_session_attrs=read-write"),
        ("postgresql://u@one,two/db?a=b", "postgresql://u@one,two/db?a=b&target_session_attrs=read-write"),
        ("postgresql://u@one,two/db?target_session_attrs=primary", None),
    ],
)
def test_of_several_servers_the_one_that_can_be_written_to(url: str, wanted: str | None) -> None:
    assert to_the_primary(url) == (wanted or url)
