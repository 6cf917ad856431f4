"""The way to the database, in URLs."""

import pytest

from interlock.durable.way import _with_password, to_the_primary


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


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("postgresql://u@one:5432/db", "postgresql://u:n%2Fe%40u@one:5432/db"),
        ("postgresql://u:old@one/db?sslmode=require", "postgresql://u:n%2Fe%40u@one/db?sslmode=require"),
        ("postgresql://u@one/db?password=old", "postgresql://u:n%2Fe%40u@one/db"),
        ("postgresql://u@%2Fsocket:5433/db", "postgresql://u:n%2Fe%40u@%2Fsocket:5433/db"),
    ],
)
def test_the_password_that_was_given_beats_every_other(url: str, wanted: str) -> None:
    assert _with_password(url, "n/e@u") == wanted
