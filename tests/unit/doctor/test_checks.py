"""Every check, over everything that could be observed."""

import re

import pytest

from interlock import errors
from interlock.doctor import Finding, Verdict, checks
from interlock.doctor.checks.clocks import clocks
from interlock.doctor.checks.connections import connections, pooler
from interlock.doctor.checks.durability import durability, replication
from interlock.doctor.checks.reach import reachable, version
from interlock.doctor.examination import judge
from interlock.doctor.facts import ConnectionLimit, Offset, Pooler, ServerFacts, StandbyFacts
from interlock.doctor.observation import SETTINGS
from support.doctor_facts import HEALTHY, but, with_settings

OK, WARNING, PROBLEM = Verdict.OK, Verdict.WARNING, Verdict.PROBLEM


def only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    return finding


def test_a_healthy_database_is_found_healthy() -> None:
    findings = list(judge(HEALTHY))
    assert {finding.verdict for finding in findings} == {OK}
    assert len(findings) == len(checks.ALL) == len({finding.check for finding in findings})
    assert set(HEALTHY.settings) == set(SETTINGS)


def test_whatever_is_wrong_comes_with_something_to_do() -> None:
    worst = but(
        round_trip=5,
        pooler=Pooler.STATEMENT,
        clock=Offset(100, 0),
        rooms=(ConnectionLimit("server", 10, 10),),
        settings=with_settings(
            {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "lock_timeout": 0.01}
        ).settings,
        standbys=(StandbyFacts("two", "streaming", "async", -20),),
    )
    findings = [finding for finding in judge(worst) if finding.verdict is not OK]
    assert len(findings) >= 8
    for finding in findings:
        assert re.fullmatch(r"\S.*[.;]", finding.remedy), finding
        assert re.fullmatch(r"[A-Z\w].*\.", finding.says), finding


@pytest.mark.parametrize(
    ("seconds", "verdict"), [(0.0001, OK), (0.0999, OK), (0.1, WARNING), (0.999, WARNING), (1, PROBLEM), (9, PROBLEM)]
)
def test_a_server_that_is_far_away(seconds: float, verdict: Verdict) -> None:
    finding = only(list(reachable(but(round_trip=seconds))))
    assert finding.verdict is verdict
    assert finding.facts == {"round_trip": seconds}
    assert bool(finding.remedy) == (verdict is not OK)
    assert finding.exit_status == (69 if verdict is PROBLEM else 78)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.DatabaseUnreachable, 69),
        (errors.NotPrimary, 69),
        (errors.AccessDenied, 77),
        (errors.UnsupportedServer, 78),
    ],
)
def test_a_server_that_was_not_reached_says_why(error: type[errors.StoreError], status: int) -> None:
    finding = checks.not_reached(error("No."))
    assert (finding.check, finding.verdict, finding.says, finding.exit_status) == ("reachable", PROBLEM, "No.", status)


def test_the_version_is_reported() -> None:
    assert only(list(version(HEALTHY))).says == "It is PostgreSQL 17.5."


@pytest.mark.parametrize(
    ("settings", "verdicts"),
    [
        ({}, [OK]),
        ({"synchronous_commit": "local"}, [OK]),
        ({"synchronous_commit": "remote_write"}, [OK]),
        ({"synchronous_commit": "off"}, [WARNING]),
        ({"full_page_writes": "off"}, [WARNING]),
        ({"fsync": "off"}, [PROBLEM]),
        ({"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}, [PROBLEM, WARNING, WARNING]),
    ],
)
def test_settings_that_lose_data_in_a_crash(settings: dict[str, str], verdicts: list[Verdict]) -> None:
    findings = list(durability(with_settings(settings)))
    assert [finding.verdict for finding in findings] == verdicts
    for finding in findings:
        assert finding.verdict is OK or any(finding.says.startswith(name) for name in settings)


def standby(sync_state: str | None, *, state: str | None = "streaming") -> StandbyFacts:
    return StandbyFacts("two", state, sync_state, None)


@pytest.mark.parametrize(
    ("names", "commit", "standbys", "verdict", "says"),
    [
        ("", "on", (), OK, "without connected standbys"),
        ("", "on", (standby("async"),), WARNING, "1 asynchronous standby: a failover loses"),
        ("", "on", (standby("async"), standby("async")), WARNING, "2 asynchronous standbys"),
        ("", "on", (standby(None, state=None),), WARNING, "1 asynchronous standby"),
        ("two", "on", (standby("sync"),), OK, "commits wait for two"),
        ("ANY 1 (two)", "remote_apply", (standby("quorum"), standby("async")), OK, "commits wait for two"),
        ("two", "remote_write", (standby("sync"),), OK, "commits wait for two"),
        ("two", "on", (), PROBLEM, "every acquire will hang"),
        ("two", "on", (standby("async"),), PROBLEM, "every acquire will hang"),
        ("two", "on", (standby("potential"),), PROBLEM, "every acquire will hang"),
        ("two", "on", (standby(None, state=None),), WARNING, "this role may not see"),
        ("two", "local", (standby("sync"),), WARNING, "synchronous_commit = local no commit waits"),
        ("two", "off", (standby("sync"),), WARNING, "synchronous_commit = off no commit waits"),
        ("two", "off", (), WARNING, "no commit waits"),
    ],
)
def test_standbys_that_lose_data_in_a_failover(
    names: str, commit: str, standbys: tuple[StandbyFacts, ...], verdict: Verdict, says: str
) -> None:
    settings = with_settings({"synchronous_standby_names": names, "synchronous_commit": commit}).settings
    finding = only(list(replication(but(settings=settings, standbys=standbys))))
    assert finding.verdict is verdict
    assert says in finding.says


def test_a_superusers_remedy_can_be_pasted() -> None:
    settings = with_settings({"synchronous_standby_names": "two", "synchronous_commit": "on"}).settings
    facts = but(role='the "web"', settings=settings, standbys=(standby(None, state=None),))
    assert only(list(replication(facts))).remedy == 'Let a superuser run: GRANT pg_monitor TO "the ""web""";'


def test_a_standby_is_a_problem_whatever_else_holds() -> None:
    finding = only(list(replication(but(is_standby=True, standbys=(standby("async"),)))))
    assert (finding.verdict, finding.exit_status) == (PROBLEM, errors.NotPrimary.exit_status)
    assert "target_session_attrs=read-write" in finding.remedy


@pytest.mark.parametrize(
    ("mode", "verdict"),
    [
        (Pooler.NONE, OK),
        (Pooler.SESSION, WARNING),
        (Pooler.TRANSACTION, WARNING),
        (Pooler.UNKNOWN, WARNING),
        (Pooler.STATEMENT, PROBLEM),
    ],
)
def test_the_verdict_for_each_pooler_mode(mode: Pooler, verdict: Verdict) -> None:
    finding = only(list(pooler(but(pooler=mode))))
    assert finding.verdict is verdict
    assert finding.facts == {"mode": mode.value}
    assert verdict is OK or "database's own address" in finding.remedy


@pytest.mark.parametrize(
    ("rooms", "verdict", "whose"),
    [
        ([ConnectionLimit("server", 97, 87)], OK, "server"),
        ([ConnectionLimit("server", 97, 88)], WARNING, "server"),
        ([ConnectionLimit("server", 97, 94)], WARNING, "server"),
        ([ConnectionLimit("server", 97, 95)], PROBLEM, "server"),
        ([ConnectionLimit("server", 97, 120)], PROBLEM, "server"),
        ([ConnectionLimit("server", 97, 2), ConnectionLimit("role", 5, 1)], WARNING, "role"),
        (
            [ConnectionLimit("server", 97, 2), ConnectionLimit("role", 50, 1), ConnectionLimit("database", 5, 4)],
            PROBLEM,
            "database",
        ),
    ],
)
def test_room_for_more_connections(rooms: list[ConnectionLimit], verdict: Verdict, whose: str) -> None:
    finding = only(list(connections(but(rooms=tuple(rooms)))))
    assert finding.verdict is verdict
    assert finding.facts["limit_of"] == whose
    assert f"the {whose}'s" in finding.says
    assert finding.exit_status == (69 if verdict is PROBLEM else 78)


@pytest.mark.parametrize(
    ("ahead", "uncertainty", "verdict"),
    [
        (0, 0.001, OK),
        (0.9, 0, OK),
        (-0.9, 0, OK),
        (1.5, 1, OK),
        (1, 0, WARNING),
        (-1, 0, WARNING),
        (9.9, 0, WARNING),
        (11, 2, WARNING),
        (10, 0, PROBLEM),
        (-10, 0, PROBLEM),
        (-3600, 5, PROBLEM),
    ],
)
def test_clocks_that_differ_for_certain(ahead: float, uncertainty: float, verdict: Verdict) -> None:
    finding = only(list(clocks(but(clock=Offset(ahead, uncertainty)))))
    assert finding.verdict is verdict
    assert ("behind this machine's" if ahead < 0 else "ahead of this machine's") in finding.says
    assert finding.facts == {"ahead": ahead, "uncertainty": uncertainty}


@pytest.mark.parametrize(
    ("answered_ago", "verdict", "says"),
    [
        (None, None, ""),
        (0.01, None, ""),
        (59.0, None, ""),
        (-0.9, None, ""),
        (-1.0, WARNING, "1 s ahead"),
        (-9.9, WARNING, "9.9 s ahead"),
        (-10.0, PROBLEM, "10 s ahead"),
        (60.0, WARNING, "answered 60 s ago"),
    ],
)
def test_the_clock_of_a_connected_standby(answered_ago: float | None, verdict: Verdict | None, says: str) -> None:
    connected = StandbyFacts("two", "streaming", "async", answered_ago)
    _, *findings = clocks(but(standbys=(connected,)))
    assert [finding.verdict for finding in findings] == ([verdict] if verdict else [])
    assert all(says in finding.says for finding in findings)


ONE = ServerFacts("one", is_standby=False, clock=Offset(5, 0.1))


@pytest.mark.parametrize(
    ("ahead", "uncertainty", "verdict", "says"),
    [
        (5, 0.1, OK, "0 ms ahead of the primary's, give or take 200 ms"),
        (4.5, 0.1, OK, "500 ms behind the primary's"),
        (6.1, 0.1, OK, "1.1 s ahead"),
        (6.3, 0.1, WARNING, "leases end that much too early"),
        (15.3, 0.1, PROBLEM, "10.3 s ahead of the primary's"),
        (15.1, 0.1, WARNING, "10.1 s ahead of the primary's"),
        (3.7, 0.1, WARNING, "stay taken for that much longer"),
        (-100, 0.1, WARNING, "105 s behind the primary's"),
    ],
)
def test_the_clock_of_a_standby_that_the_url_names(
    ahead: float, uncertainty: float, verdict: Verdict, says: str
) -> None:
    two = ServerFacts("two", is_standby=True, clock=Offset(ahead, uncertainty))
    finding = only(list(checks.clocks_of_servers((two, ONE))))
    assert finding.verdict is verdict
    assert says in finding.says
    assert finding.facts["standby"] == "two"


@pytest.mark.parametrize(
    "found",
    [(), (ONE,), (ServerFacts("two", is_standby=True, clock=Offset(9, 0)),), (ONE, ServerFacts("two", error="No."))],
)
def test_clocks_of_unobserved_servers_are_not_compared(found: tuple[ServerFacts, ...]) -> None:
    assert list(checks.clocks_of_servers(found)) == []


TWO = ServerFacts("two", is_standby=True, clock=Offset(0, 0))
THREE = ServerFacts("three", is_standby=False, clock=Offset(0, 0))
SILENT = ServerFacts("four", error="No database answers.")


@pytest.mark.parametrize("wanted", [None, "any", "primary", "standby", "prefer-standby", "read-write", "read-only"])
@pytest.mark.parametrize(
    ("found", "verdicts"),
    [
        ((ONE, TWO), [OK]),
        ((TWO, TWO), [OK]),
        ((ONE, SILENT), [WARNING]),
        ((SILENT, SILENT), [WARNING, WARNING]),
        ((ONE, THREE), [PROBLEM]),
        ((ONE, TWO, THREE, SILENT), [PROBLEM, WARNING]),
    ],
)
def test_several_servers(found: tuple[ServerFacts, ...], verdicts: list[Verdict], wanted: str | None) -> None:
    findings = list(checks.servers(found, wanted))
    unasked = [finding for finding in findings if "does not ask" in finding.says]
    assert len(unasked) == (wanted not in ("primary", "read-write"))
    assert [finding.verdict for finding in findings if finding not in unasked] == verdicts


def test_one_server_alone_is_not_compared() -> None:
    assert list(checks.servers((), None)) == []
