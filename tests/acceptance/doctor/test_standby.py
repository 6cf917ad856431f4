"""`interlock doctor` on a primary and its standby: which is which, and what a failover would take."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from support.postgres import execute
from support.programs import interlock
from support.replication import Pair, primary_and_standby
from support.waiting import eventually


@pytest.fixture(scope="module")
def asynchronous() -> Iterator[Pair]:
    with primary_and_standby(synchronous=False) as pair:
        yield pair


@pytest.fixture
def synchronous() -> Iterator[Pair]:
    with primary_and_standby(synchronous=True) as pair:
        yield pair


def examined(url: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    told = interlock("doctor", "--json", url=url)
    assert told.stderr == ""
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in json.loads(told.stdout)["findings"]:
        found.setdefault(finding["check"], []).append(finding)
    return told.returncode, found


def replication(url: str) -> tuple[str, str]:
    (finding,) = examined(url)[1]["replication"]
    return finding["verdict"], finding["says"]


def test_a_standby_is_a_problem_with_a_status_of_its_own(asynchronous: Pair) -> None:
    status, found = examined(asynchronous.standby_url)
    assert status == 69
    assert found["replication"][0]["verdict"] == "problem"
    assert "target_session_attrs=read-write" in found["replication"][0]["remedy"]


def test_a_primary_with_an_asynchronous_standby(asynchronous: Pair) -> None:
    verdict, says = replication(asynchronous.primary_url)
    assert verdict == "warning"
    assert "1 asynchronous standby: a failover loses" in says


def test_of_several_servers_each_is_looked_at(asynchronous: Pair) -> None:
    _, found = examined(asynchronous.url)
    (servers,) = found["servers"]
    assert servers["verdict"] == "ok"
    assert ("is the primary" in servers["says"], "is a standby" in servers["says"]) == (True, True)
    ours, standbys = found["clock"]
    assert ours["verdict"] == standbys["verdict"] == "ok"
    assert abs(standbys["facts"]["ahead"]) < 1


def test_of_several_servers_the_one_for_writes_has_to_be_asked_for(asynchronous: Pair) -> None:
    _, found = examined(asynchronous.url.partition("?")[0])
    assert "does not ask for the one that takes writes" in found["servers"][0]["says"]


@pytest.mark.exhaustive
def test_a_server_that_cannot_take_over_is_reported(asynchronous: Pair) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        url = asynchronous.url.replace("/interlock?", f",127.0.0.1:{port}/interlock?")
        _, found = examined(url)
    assert found["reachable"][0]["verdict"] == "ok"
    assert [finding["verdict"] for finding in found["servers"]] == ["warning"]
    assert f"127.0.0.1:{port} was not reached" in found["servers"][0]["says"]


def test_where_no_server_takes_writes_each_is_looked_at_all_the_same(asynchronous: Pair) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{taken.getsockname()[1]}"
        address = asynchronous.standby_url.partition("@")[2].partition("/")[0]
        url = asynchronous.standby_url.replace(address, f"{nowhere},{address}") + "?target_session_attrs=read-write"
        status, found = examined(url)
    assert status == 69
    assert "takes writes" in found["reachable"][0]["says"]
    assert f"{nowhere} was not reached" in found["servers"][0]["says"]


def test_a_synchronous_standby_and_then_none(synchronous: Pair) -> None:
    assert replication(synchronous.primary_url)[0] == "ok"
    execute(synchronous.primary_url, "SET synchronous_commit = local; CREATE ROLE plain LOGIN PASSWORD 'x'")
    plain = synchronous.primary_url.partition("@")[2]
    verdict, says = replication(f"postgresql://plain:x@{plain}")
    assert verdict == "warning"
    assert "may not see" in says
    synchronous.standby.stop("immediate")
    eventually(lambda: execute(synchronous.primary_url, "SELECT count(*) FROM pg_stat_replication") == [(0,)])
    verdict, says = replication(synchronous.primary_url)
    assert verdict == "problem"
    assert "every acquire will hang" in says


@pytest.mark.exhaustive
def test_two_primaries_are_a_problem(synchronous: Pair) -> None:
    synchronous.promote()
    status, found = examined(synchronous.url)
    assert status != 0
    assert found["servers"][0]["verdict"] == "problem"
    assert "More than one of the servers takes writes" in found["servers"][0]["says"]
