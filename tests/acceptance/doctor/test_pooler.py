"""`interlock doctor` through PgBouncer: that there is one, which mode it is in, and what works behind it."""

import json
from contextlib import ExitStack

import psycopg
import pytest

from support.pooler import PoolMode, pooled
from support.programs import interlock


def mode_found(url: str) -> tuple[str, str]:
    """The mode, and the verdict on it."""
    told = interlock("doctor", "--json", url=url)
    assert told.stderr == ""
    (finding,) = [finding for finding in json.loads(told.stdout)["findings"] if finding["check"] == "pooler"]
    return finding["facts"]["mode"], finding["verdict"]


@pytest.mark.exhaustive(beyond=2)
@pytest.mark.parametrize(
    ("mode", "size", "expected"),
    [
        ("transaction", 1, ("transaction", "warning")),
        ("transaction", 5, ("transaction", "warning")),
        ("session", 5, ("session", "warning")),
        ("session", 1, ("unknown", "warning")),
        ("statement", 5, ("statement", "problem")),
    ],
)
def test_the_mode_of_a_pooler_shows(interlock_url: str, mode: PoolMode, size: int, expected: tuple[str, str]) -> None:
    with pooled(interlock_url, mode, pool_size=size) as url:
        assert mode_found(url) == expected


def test_a_pooler_that_takes_its_sessions_in_turn_is_found_out_too(interlock_url: str) -> None:
    with pooled(interlock_url, "transaction", in_turn=True) as url:
        with ExitStack() as stack:
            clients = [stack.enter_context(psycopg.connect(url)) for _ in range(3)]
            assert len({client.execute("SELECT pg_backend_pid()").fetchone() for client in clients}) == 3
        assert mode_found(url) == ("transaction", "warning")


def test_without_a_pooler_there_is_none(interlock_url: str) -> None:
    assert mode_found(interlock_url) == ("none", "ok")
