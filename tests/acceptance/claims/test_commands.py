"""`interlock claim list` and `interlock claim show`, as operators and scripts use them."""

import json

import psycopg
import pytest

from interlock import Interlock
from support.programs import interlock


@pytest.fixture
def url(interlock_url: str) -> str:
    locks = Interlock(interlock_url)
    with psycopg.connect(interlock_url) as connection:
        locks.claim(connection, "dns", "mydb", "A")
        locks.claim(connection, "dns", "other", "Aé")
        locks.claim(connection, "bucket", "mydb", "B")
        locks.claims("dns").transfer(connection, "mydb", "A", "C")
    return interlock_url


def test_the_list_has_every_name_and_its_owner(url: str) -> None:
    done = interlock("claim", "list", url=url)
    assert done.returncode == 0
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == [
        "bucket mydb: B",
        "dns mydb: C",
        "dns other: Aé",
    ]
    done = interlock("claim", "list", "dns", "--owner", "A", "--past", "--json", url=url)
    [found] = json.loads(done.stdout)
    assert (found["name"], found["owner"], found["passed_to"]) == ("mydb", "A", "C")
    assert "no such claim" in interlock("claim", "list", "nothing", url=url).stdout


def test_one_name_is_shown_with_its_history(url: str) -> None:
    done = interlock("claim", "show", "dns", "mydb", url=url)
    first, second = done.stdout.splitlines()
    assert first.startswith("dns mydb: A, since ")
    assert first.endswith(", passed on to C")
    assert second.startswith("dns mydb: C, since ")
    assert [
        one["owner"] for one in json.loads(interlock("claim", "show", "dns", "mydb", "--json", url=url).stdout)
    ] == [
        "A",
        "C",
    ]
    done = interlock("claim", "show", "dns", "nothing", url=url)
    assert done.returncode == 1
    assert done.stderr.startswith("interlock: The name 'nothing' was never claimed")
