"""`interlock doctor` on one server: what it finds, and that what it says mends it."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from interlock.embedded import Cluster
from support.postgres import execute, fresh_database, make_template, running_cluster
from support.programs import interlock

SECRET = "geheim"


@pytest.fixture(scope="module")
def sound() -> Iterator[Cluster]:
    """A server as people run it: the one that other tests share is quick, and would lose everything in a crash."""
    with running_cluster({"wal_level": "replica"}) as cluster:
        execute(cluster.url(tcp=True), f"CREATE ROLE web LOGIN PASSWORD '{SECRET}'")
        make_template(cluster.url(tcp=True))
        yield cluster


@pytest.fixture
def owner_url(sound: Cluster) -> Iterator[str]:
    """A database with Interlock's schema, for its owner."""
    with fresh_database(sound.url(tcp=True), "interlock_template") as url:
        yield url


@pytest.fixture
def web_url(owner_url: str) -> str:
    """The same for a role that has been granted what it needs."""
    assert interlock("schema", "grant", "web", url=owner_url).returncode == 0
    return as_web(owner_url)


def as_web(url: str, *, secret: str = SECRET) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"web:{secret}@{parts.hostname}:{parts.port}"))


def examined(url: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """The exit status, and by check what is not fine."""
    told = interlock("doctor", "--json", url=url)
    assert told.stderr == ""
    assert SECRET not in told.stdout
    report = json.loads(told.stdout)
    assert told.returncode == report["exit_status"]
    assert (told.returncode == 0) == (report["verdict"] != "problem")
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in report["findings"]:
        if finding["verdict"] != "ok":
            found.setdefault(finding["check"], []).append(finding)
    return told.returncode, found


def test_a_fine_database_is_nothing_to_complain_of(web_url: str) -> None:
    assert examined(web_url) == (0, {})
    told = interlock("doctor", url=web_url)
    assert (told.returncode, told.stderr) == (0, "")
    shown, hint, *lines, summary = told.stdout.splitlines()
    assert hint == 'The password is left out: give it in PGPASSWORD, or use the whole URL with eval "$(interlock env)".'
    assert shown == web_url.replace(f":{SECRET}", "")
    assert all(line.startswith("ok ") for line in lines)
    assert summary == "Nothing to complain of."


def test_the_url_that_is_shown_works_once_the_password_is_given(web_url: str) -> None:
    shown = interlock("doctor", url=web_url).stdout.splitlines()[0]
    assert interlock("doctor", url=shown, PGPASSWORD=SECRET).returncode == 0


def test_the_url_of_a_unix_socket_works_too(sound: Cluster) -> None:
    told = interlock("doctor", url=sound.url())
    shown, password = told.stdout.splitlines()[0], urlsplit(sound.url()).password
    assert password
    assert "reachable" in interlock("doctor", url=shown, PGPASSWORD=password).stdout
    assert interlock("doctor", url=shown, PGPASSWORD=password).returncode == told.returncode != 77


def test_text_and_json_have_the_same_findings(owner_url: str) -> None:
    told, report = interlock("doctor", url=as_web(owner_url)), interlock("doctor", "--json", url=as_web(owner_url))
    assert told.returncode == report.returncode == 77
    findings = json.loads(report.stdout)["findings"]
    for finding in findings:
        assert f"{finding['verdict']:<9}{finding['check']:<13}" in told.stdout
        assert finding["remedy"] in told.stdout
    assert told.stdout.splitlines()[-1] == "2 problems."


def test_it_works_where_nothing_may_be_written(owner_url: str, web_url: str) -> None:
    execute(owner_url, "ALTER ROLE web SET default_transaction_read_only = on")
    try:
        assert examined(web_url) == (0, {})
    finally:
        execute(owner_url, "ALTER ROLE web RESET default_transaction_read_only")


def test_an_address_without_a_server() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        status, found = examined(f"postgresql://web:{SECRET}@127.0.0.1:{taken.getsockname()[1]}/shop")
    assert status == 69
    assert "No database answers" in found["reachable"][0]["says"]


def test_a_wrong_password(owner_url: str) -> None:
    status, found = examined(as_web(owner_url, secret="wrong"))
    assert status == 77
    assert "check the URL's user, password and database" in found["reachable"][0]["says"]


def test_a_database_that_does_not_exist(sound: Cluster) -> None:
    assert examined(sound.url("nowhere", tcp=True))[0] == 77


@pytest.mark.parametrize("url", ["mysql://web@db/shop", f"postgresql://web:{SECRET}@one:1,two:x/shop"])
def test_a_url_that_cannot_be_read_is_no_finding(url: str) -> None:
    told = interlock("doctor", "--json", url=url)
    assert (told.returncode, told.stdout) == (78, "")
    assert told.stderr.startswith("interlock: The database URL")
    assert SECRET not in told.stderr


def test_no_database_named(tmp_path: Path) -> None:
    told = interlock("doctor", "--data-dir", str(tmp_path))
    assert told.returncode == 78
    assert "No database was named" in told.stderr


def test_a_missing_schema_and_then_a_missing_grant(sound: Cluster) -> None:
    with fresh_database(sound.url(tcp=True), "template0") as url:
        status, found = examined(as_web(url))
        assert status == 78
        assert set(found) == {"schema", "privileges"}
        assert "may not create the schema" in found["privileges"][0]["says"]
        for command in re.findall(r"`interlock ([^`]+)`", found["privileges"][0]["remedy"]):
            assert interlock(*command.split(), url=url).returncode == 0
        assert examined(as_web(url))[1] == {}


def test_a_role_without_privileges(owner_url: str) -> None:
    status, found = examined(as_web(owner_url))
    assert status == 77
    assert set(found) == {"schema", "privileges"}
    assert found["privileges"][0]["says"] == "The role web may not use any part of Interlock."
    (command,) = re.findall(r"`interlock ([^`]+)`", found["privileges"][0]["remedy"])
    assert interlock(*command.split(), url=owner_url).returncode == 0
    assert examined(as_web(owner_url))[1] == {}


def test_a_role_that_is_only_for_leases_is_fine(owner_url: str) -> None:
    assert interlock("schema", "grant", "web", "--for", "leases", url=owner_url).returncode == 0
    told = interlock("doctor", url=as_web(owner_url))
    assert told.returncode == 0, told.stdout
    assert "may use leases, but not gate, orchestrations, operations, claims, instances and keys." in told.stdout


def test_a_grant_without_later_privileges(owner_url: str, web_url: str) -> None:
    execute(owner_url, "REVOKE UPDATE ON interlock.gate_step FROM web")
    status, found = examined(web_url)
    assert status == 77
    assert found["privileges"][0]["says"] == "The role web cannot use gate: it lacks UPDATE on table gate_step."
    (command,) = re.findall(r"`interlock ([^`]+)`", found["privileges"][0]["remedy"])
    assert interlock(*command.split(), url=owner_url).returncode == 0
    assert examined(web_url)[1] == {}


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize(
    "where", ["ROLE web", "ROLE web IN DATABASE {database}", "DATABASE {database}"], ids=["role", "both", "database"]
)
def test_time_outs_that_hurt_come_with_the_statement_that_mends_them(owner_url: str, web_url: str, where: str) -> None:
    target = where.format(database=urlsplit(owner_url).path.lstrip("/"))
    settings = {"statement_timeout": "'2s'", "lock_timeout": "'50ms'", "idle_session_timeout": "'30s'"}
    for name, value in settings.items():
        execute(owner_url, f"ALTER {target} SET {name} = {value}")
    try:
        status, found = examined(web_url)
        assert status == 78
        assert {finding["says"].partition(" ")[0]: finding["verdict"] for finding in found["time-outs"]} == {
            "statement_timeout": "warning",
            "lock_timeout": "problem",
            "idle_session_timeout": "warning",
        }
        for finding in found["time-outs"]:
            execute(owner_url, finding["remedy"])
        assert examined(web_url)[1] == {}
    finally:
        execute(owner_url, "ALTER ROLE web RESET ALL")


def test_a_time_out_in_the_url(web_url: str) -> None:
    _, found = examined(f"{web_url}?statement_timeout=500")
    assert [(finding["verdict"], finding["remedy"]) for finding in found["time-outs"]] == [
        ("problem", "Take statement_timeout out of the URL.")
    ]


def test_a_timeout_that_hits_the_doctor_itself_is_reported(owner_url: str, web_url: str) -> None:
    status, found = examined(f"{web_url}?statement_timeout=1")
    assert status != 0
    assert {"reachable", "time-outs"} & set(found)


def test_commits_that_do_not_wait_for_the_disk(owner_url: str, web_url: str) -> None:
    execute(owner_url, "ALTER ROLE web SET synchronous_commit = off")
    try:
        status, found = examined(web_url)
    finally:
        execute(owner_url, "ALTER ROLE web RESET synchronous_commit")
    assert status == 0
    assert [finding["verdict"] for finding in found["durability"]] == ["warning"]


def test_a_server_that_does_without_fsync(interlock_url: str) -> None:
    status, found = examined(interlock_url)
    assert status == 78
    assert [finding["verdict"] for finding in found["durability"]] == ["problem", "warning", "warning"]


def test_a_role_that_may_have_few_connections(owner_url: str, web_url: str) -> None:
    execute(owner_url, "ALTER ROLE web CONNECTION LIMIT 5")
    try:
        status, found = examined(web_url)
    finally:
        execute(owner_url, "ALTER ROLE web CONNECTION LIMIT -1")
    assert status == 0
    assert found["connections"][0]["facts"] == {"limit_of": "role", "limit": 5, "used": 1}


def test_a_schema_of_another_name(owner_url: str) -> None:
    assert interlock("schema", "apply", "--schema", "own", url=owner_url).returncode == 0
    assert interlock("schema", "grant", "web", "--schema", "own", url=owner_url).returncode == 0
    told = interlock("doctor", "--schema", "own", url=as_web(owner_url))
    assert (told.returncode, told.stderr) == (0, "")
    assert "The schema 'own' is at version" in told.stdout
