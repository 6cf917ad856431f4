"""Access to the database, in URLs."""

import pytest

from interlock.durable.server_access import _with_password


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
