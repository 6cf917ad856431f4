"""`interlock instance …` on a control plane that answers as it was told to."""

import json
from pathlib import Path

import pytest

from support.instance_answers import CREATING, DELETED, FAILED, RUNNING, happening
from support.scripted_server import LOST, Answer, Command, ScriptedServer, problem

ID = RUNNING["id"]
TAKEN_ON = {"name": "mydb", "status": 202, "instance": CREATING}
STEPS = [happening("checked", 0.5), happening("provisioned", 1.5), happening("come_up", 2.5)]


def interrupted(seconds: float) -> None:
    raise KeyboardInterrupt


def test_create_says_what_to_do_next(script: ScriptedServer, run: Command) -> None:
    script.answers("POST /instances", Answer(CREATING, 202))
    done = run("create", "mydb", "--version", "17", "--parameter", "work_mem=8MB", "--tag", "team=shop")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == "mydb is creating: `interlock instance wait mydb` tells when that is done.\n"
    wanted = {"name": "mydb", "version": "17", "parameters": {"work_mem": "8MB"}, "tags": {"team": "shop"}}
    assert script.asked[0].body == wanted


def test_create_and_wait_tells_each_step_once_and_then_the_result(script: ScriptedServer, run: Command) -> None:
    script.answers("POST /instances", Answer(CREATING, 202))
    script.answers(f"GET /instances/{ID}", CREATING, CREATING, RUNNING)
    newest_first = [{"items": STEPS[count - 1 :: -1] if count else []} for count in (0, 2, 3)]
    script.answers(f"GET /instances/{ID}/events", *newest_first)
    done = run("create", "mydb", "--wait")
    assert (done.exit_code, done.stderr) == (0, "mydb: checked\nmydb: provisioned\nmydb: running\n")
    assert done.stdout == "mydb is running at 127.0.0.1:15432: `interlock instance connect mydb` opens psql.\n"


def test_what_happened_before_is_not_told_again(script: ScriptedServer, run: Command) -> None:
    script.answers("POST /instances/mydb/restart", Answer(RUNNING | {"state": "starting", "working": True}, 202))
    script.answers(f"GET /instances/{ID}", RUNNING)
    script.answers(f"GET /instances/{ID}/events", {"items": [happening("told to stop", 3), *STEPS[:2]]})
    assert run("restart", "mydb", "--wait").stderr == "mydb: told to stop\n"


def test_create_that_fails_exits_with_1_and_the_error(script: ScriptedServer, run: Command) -> None:
    script.answers("POST /instances", Answer(CREATING, 202))
    script.answers(f"GET /instances/{ID}", FAILED)
    script.answers(f"GET /instances/{ID}/events", {"items": []})
    done = run("create", "mydb", "--wait")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "interlock: mydb is failed: The disk is full: make room. (out_of_space)\n"
    done = run("create", "mydb", "--wait", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (1, FAILED)


def test_a_name_that_is_taken_is_told_with_its_owner(script: ScriptedServer, run: Command) -> None:
    taken = "The DNS name 'a.example.com' belongs to the instance mydb (5b0c, running): choose another."
    script.answers("POST /instances", problem(409, "name_taken", taken, name="a.example.com", owner="5b0c"))
    done = run("create", "otherdb", "--dns-name", "a.example.com", "--wait")
    assert (done.exit_code, done.stdout, done.stderr) == (73, "", f"interlock: {taken}\n")


def test_a_wait_that_takes_too_long_exits_with_75_and_the_work_goes_on(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb", CREATING)
    script.answers(f"GET /instances/{ID}", CREATING)
    script.answers(f"GET /instances/{ID}/events", {"items": []})
    done = run("wait", "mydb", "--timeout", "0")
    assert done.exit_code == 75
    assert done.stderr.startswith("interlock: mydb is creating after 0 s: what was asked for goes on")


@pytest.mark.parametrize("more", [["--timeout", "5"], ["--timeout", "5", "--wait"], ["--wait", "--timeout", "5"]])
def test_whoever_says_how_long_to_wait_has_to_say_that_it_is_to_be_waited(
    script: ScriptedServer, run: Command, more: list[str]
) -> None:
    script.answers("POST /instances/mydb/stop", Answer(RUNNING | {"working": True}, 202))
    script.answers(f"GET /instances/{ID}", RUNNING | {"state": "stopped"})
    script.answers(f"GET /instances/{ID}/events", {"items": []})
    done = run("stop", "mydb", *more)
    if "--wait" in more:
        assert (done.exit_code, done.stdout) == (0, "mydb is stopped.\n")
    else:
        assert (done.exit_code, script.asked) == (2, [])


def test_a_server_that_is_started_anew_meanwhile_is_waited_for(script: ScriptedServer, run: Command) -> None:
    script.answers("POST /instances/mydb/stop", Answer(RUNNING | {"working": True}, 202))
    script.answers(f"GET /instances/{ID}", LOST, LOST, LOST, RUNNING | {"state": "stopped"})
    script.answers(f"GET /instances/{ID}/events", {"items": []})
    done = run("stop", "mydb", "--wait")
    assert (done.exit_code, done.stdout) == (0, "mydb is stopped.\n")


def test_what_happened_to_one_at_rest_is_not_told_by_those_who_come_later(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb", RUNNING)
    script.answers(f"GET /instances/{ID}", RUNNING)
    script.answers(f"GET /instances/{ID}/events", {"items": STEPS})
    assert run("wait", "mydb").stderr == ""
    script.answers(f"GET /instances/{ID}", RUNNING, DELETED)
    script.answers(f"GET /instances/{ID}/events", {"items": STEPS}, {"items": [happening("vanish", 4), *STEPS]})
    said = [line.split("  ")[1] for line in run("watch", "mydb").stdout.splitlines()]
    assert said == ["mydb: running, healthy", "mydb: deleted"]


def test_a_wait_for_one_at_rest_does_not_say_that_something_works_on_it(
    script: ScriptedServer, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.answers("GET /instances/mydb", RUNNING)
    script.answers(f"GET /instances/{ID}", RUNNING)
    script.answers(f"GET /instances/{ID}/events", {"items": []})
    done = run("wait", "mydb", "--for", "stopped", "--timeout", "0")
    assert (done.exit_code, done.stderr) == (
        75,
        "interlock: mydb is running, healthy after 0 s: nothing works on it.\n",
    )
    monkeypatch.setattr("interlock.cli.record.patience.time.sleep", interrupted)
    done = run("wait", "mydb", "--for", "stopped")
    assert (done.exit_code, done.stderr.strip()) == (130, "")


def test_a_server_that_stays_away_is_told_of_and_waited_for_no_longer_than_was_asked(
    script: ScriptedServer, run: Command
) -> None:
    script.answers("GET /instances/mydb", CREATING)
    script.answers(f"GET /instances/{ID}", LOST)
    done = run("wait", "mydb", "--timeout", "0")
    assert (done.exit_code, done.stdout) == (75, "")
    away, over = done.stderr.splitlines()
    assert away.startswith(f"interlock: No control plane answers at {script.url}")
    assert away.endswith("Waiting for it.")
    assert over.startswith("interlock: 0 s have passed, and no control plane answers: what was asked for goes on")


@pytest.mark.parametrize("name", ["", ".", "..", "mydb/facts"])
def test_what_is_no_name_is_not_asked_for(script: ScriptedServer, run: Command, name: str) -> None:
    done = run("delete", name, "--yes")
    assert (done.exit_code, script.asked) == (65, [])
    assert done.stderr == f"interlock: {name!r} is no name and no id: say which one is meant.\n"


def test_a_name_that_is_no_text_is_unknown(script: ScriptedServer, run: Command) -> None:
    """As the system hands on bytes that are no UTF-8."""
    assert run("show", "caf\udce9").exit_code == 65
    assert run("list", "caf\udce9").exit_code == 65
    assert [one.line for one in script.asked] == ["GET /instances/caf%E9", "GET /instances"]


def test_an_interrupted_wait_says_that_the_work_goes_on(
    script: ScriptedServer, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.cli.record.patience.time.sleep", interrupted)
    script.answers("POST /instances", Answer(CREATING, 202))
    script.answers(f"GET /instances/{ID}", CREATING)
    script.answers(f"GET /instances/{ID}/events", {"items": []})
    done = run("create", "mydb", "--wait")
    assert (done.exit_code, done.stdout) == (130, "")
    assert "What works on mydb goes on" in done.stderr


def test_many_are_created_from_a_file_each_with_its_own_result(
    script: ScriptedServer, run: Command, tmp_path: Path
) -> None:
    (tmp_path / "wanted.json").write_text(json.dumps([{"name": "mydb"}, {"name": "taken"}]))
    refused = {"name": "taken", "status": 409, "problem": {"detail": "The name 'taken' belongs to another."}}
    items = [TAKEN_ON, refused]
    script.answers("POST /instances/bulk-create", {"items": items})
    done = run("create", "--file", str(tmp_path / "wanted.json"))
    assert script.asked[0].body == {"instances": [{"name": "mydb"}, {"name": "taken"}]}
    assert (done.exit_code, done.stdout.partition(":")[0]) == (1, "mydb is creating")
    assert done.stderr.splitlines() == [
        "interlock: taken: The name 'taken' belongs to another.",
        "interlock: 1 of 2 did not succeed.",
    ]
    assert json.loads(run("create", "--file", str(tmp_path / "wanted.json"), "--json").stdout) == {"items": items}


def test_more_than_fifty_are_several_requests(script: ScriptedServer, run: Command, tmp_path: Path) -> None:
    wanted = _fifty_one(tmp_path)
    script.answers("POST /instances/bulk-create", {"items": [TAKEN_ON] * 50}, {"items": [TAKEN_ON]})
    assert run("create", "--file", wanted).exit_code == 0
    assert [len(one.body["instances"]) for one in script.asked] == [50, 1]


def test_what_was_taken_is_told_though_a_later_request_fails(
    script: ScriptedServer, run: Command, tmp_path: Path
) -> None:
    wanted = _fifty_one(tmp_path)
    refused = problem(422, "invalid_request", "Some fields of the request are missing or wrong.")
    script.answers("POST /instances/bulk-create", {"items": [TAKEN_ON] * 50}, refused)
    done = run("create", "--file", wanted)
    assert (done.exit_code, done.stdout.count("mydb is creating")) == (1, 50)
    assert done.stderr.splitlines() == [
        "interlock: The request for the last 1 failed: Some fields of the request are missing or wrong.",
        "interlock: 1 of 51 did not succeed.",
    ]


def test_who_was_refused_is_told_also_if_the_wait_for_the_others_takes_too_long(
    script: ScriptedServer, run: Command, tmp_path: Path
) -> None:
    (tmp_path / "wanted.json").write_text(json.dumps([{"name": "mydb"}, {"name": "taken"}]))
    refused = {"name": "taken", "status": 409, "problem": {"detail": "The name 'taken' belongs to another."}}
    script.answers("POST /instances/bulk-create", {"items": [TAKEN_ON, refused]})
    script.answers(f"GET /instances/{ID}", CREATING)
    script.answers(f"GET /instances/{ID}/events", {"items": []})
    done = run("create", "--file", str(tmp_path / "wanted.json"), "--wait", "--timeout", "0")
    assert done.exit_code == 75
    assert done.stderr.startswith("interlock: taken: The name 'taken' belongs to another.\ninterlock: mydb is creating")


def _fifty_one(directory: Path) -> str:
    path = directory / "wanted.json"
    path.write_text(json.dumps([{"name": f"db{number}"} for number in range(51)]))
    return str(path)


@pytest.mark.parametrize("args", [(), ("a", "--file", "x"), ("--file", "x", "--version", "17"), ("a", "--tag", "b")])
def test_create_takes_a_name_or_a_file(run: Command, args: tuple[str, ...]) -> None:
    assert run("create", *args).exit_code == 2


def test_delete_does_nothing_in_a_script_that_does_not_say_yes(script: ScriptedServer, run: Command) -> None:
    script.answers("DELETE /instances/mydb", Answer(DELETED, 202))
    done = run("delete", "mydb")
    assert (done.exit_code, script.asked) == (2, [])
    assert "--yes" in done.stderr
    assert run("delete", "mydb", "--yes").exit_code == 0
    assert script.lines() == ["DELETE /instances/mydb"]


@pytest.mark.parametrize(("typed", "deleted"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_delete_asks_on_a_terminal(
    script: ScriptedServer, run: Command, monkeypatch: pytest.MonkeyPatch, typed: str, deleted: bool
) -> None:
    monkeypatch.setattr("interlock.cli.record.confirmation._is_somebody_there", lambda: True)
    script.answers("DELETE /instances/mydb", Answer(DELETED, 202))
    done = run("delete", "mydb", typed=typed)
    assert "Delete mydb, with all data?" in done.stderr
    assert (done.exit_code == 0, script.lines() == ["DELETE /instances/mydb"]) == (deleted, deleted)


def test_abandon_does_nothing_in_a_script_that_does_not_say_yes(script: ScriptedServer, run: Command) -> None:
    script.answers("POST /instances/mydb/abandon", Answer(DELETED, 202))
    done = run("abandon", "mydb")
    assert (done.exit_code, script.asked) == (2, [])
    assert "use --yes to abandon it" in done.stderr
    assert run("abandon", "mydb", "--yes").exit_code == 0
    assert script.lines() == ["POST /instances/mydb/abandon"]


def test_several_are_deleted_at_once(script: ScriptedServer, run: Command) -> None:
    items = [{"name": "a", "status": 202, "instance": DELETED}, {"name": "b", "status": 202, "instance": DELETED}]
    script.answers("POST /instances/bulk-delete", {"items": items})
    assert run("delete", "a", "b", "--yes").exit_code == 0
    assert script.asked[0].body == {"instances": ["a", "b"]}


def test_list_goes_through_all_pages(script: ScriptedServer, run: Command) -> None:
    other = RUNNING | {"name": "other"}
    script.answers("GET /instances", {"items": [RUNNING], "next": "c1"}, {"items": [other], "next": None})
    done = run("list", "db", "--state", "running", "--state", "failed", "--tag", "team=shop", "--sort", "-created")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["NAME", "mydb", "other"]
    asked = {
        "name": ["db"],
        "state": ["running", "failed"],
        "tag": ["team=shop"],
        "sort": ["-created"],
        "limit": ["200"],
    }
    assert [one.query for one in script.asked] == [asked, asked | {"after": ["c1"]}]


def test_list_takes_no_more_than_it_was_told_to(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances", {"items": [RUNNING], "next": "c1"})
    assert json.loads(run("list", "--limit", "1", "--json").stdout) == [RUNNING]
    assert [one.query["limit"] for one in script.asked] == [["1"]]


def test_an_empty_list(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances", {"items": [], "next": None})
    assert run("list").stdout == "There is no such instance.\n"
    assert run("list", "--json").stdout == "[]\n"


def test_show_and_what_is_unknown(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb", RUNNING)
    assert run("show", "mydb").stdout.startswith("mydb\n  state: running, healthy\n")
    assert json.loads(run("show", "mydb", "--json").stdout) == RUNNING
    done = run("show", "nobody")
    assert (done.exit_code, done.stderr) == (65, "interlock: There is no such instance.\n")


def test_set_changes_what_is_named_and_leaves_the_rest(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb", RUNNING | {"parameters": {"work_mem": "8MB", "jit": "off", "port": "1"}})
    script.answers(f"PUT /instances/{ID}/parameters", Answer(RUNNING | {"working": True}, 202))
    assert run("set", "mydb", "Work_Mem=64MB", "--unset", "JIT").exit_code == 0
    assert script.asked[-1].body == {"parameters": {"work_mem": "64MB", "port": "1"}}
    assert script.asked[-1].headers["If-Match"] == f'"{RUNNING["revision"]}"'
    assert run("set", "mydb").exit_code == 2


def test_set_does_not_put_back_what_somebody_else_is_just_changing(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb", RUNNING | {"working": True})
    done = run("set", "mydb", "work_mem=64MB")
    assert (done.exit_code, script.lines()) == (75, ["GET /instances/mydb"])


def test_resize(script: ScriptedServer, run: Command) -> None:
    said = "The driver local has no limit on storage."
    script.answers("PUT /instances/mydb/storage", problem(422, "not_supported", said))
    done = run("resize", "mydb", "20Gi")
    assert (done.exit_code, done.stderr, script.asked[0].body) == (78, f"interlock: {said}\n", {"storage": "20Gi"})


@pytest.mark.parametrize("verb", ["start", "stop", "restart", "reset-password", "cancel"])
def test_verbs(script: ScriptedServer, run: Command, verb: str) -> None:
    script.answers(f"POST /instances/mydb/{verb}", Answer(CREATING, 202))
    assert json.loads(run(verb, "mydb", "--json").stdout) == CREATING
    assert "Idempotency-Key" in script.asked[0].headers


def test_events_are_told_in_their_order(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb/events", {"items": STEPS[::-1]})
    assert run("events", "mydb").stdout.splitlines() == [
        "2031-01-01 12:00:00 UTC  checked",
        "2031-01-01 12:00:01 UTC  provisioned",
        "2031-01-01 12:00:02 UTC  running",
    ]
    assert json.loads(run("events", "mydb", "--json").stdout) == STEPS


def test_logs_do_not_act_on_the_terminal(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb/logs", Answer(b"LOG:  ready\n\tDETAIL \x1b[2J\n"))
    assert run("logs", "mydb", "-n", "2").stdout == "LOG:  ready\n        DETAIL \\u001b[2J\n"
    lines = [json.loads(line) for line in run("logs", "mydb", "-f", "--json").stdout.splitlines()]
    assert lines == [{"line": "LOG:  ready"}, {"line": "\tDETAIL \x1b[2J"}]
    assert [one.query for one in script.asked] == [{"lines": ["2"]}, {"lines": ["100"], "follow": ["true"]}, {}]


def test_a_log_that_is_followed_ends_well_only_if_its_instance_is_gone(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb/logs", Answer(b"LOG:  ready\n"))
    assert run("logs", "mydb", "-f").exit_code == 0
    script.answers("GET /instances/mydb", RUNNING)
    done = run("logs", "mydb", "-f")
    assert (done.exit_code, done.stdout) == (69, "LOG:  ready\n")
    assert "the control plane was stopped" in done.stderr
    assert run("logs", "mydb").exit_code == 0


def test_facts(script: ScriptedServer, run: Command) -> None:
    found = {
        "version": "17.10",
        "size_bytes": 7_800_000,
        "connections": 3,
        "max_connections": 50,
        "started_at": "2031-01-01T12:00:00Z",
    }
    script.answers("GET /instances/mydb/facts", found)
    assert run("facts", "mydb").stdout.splitlines() == [
        "mydb",
        "  version: 17.10",
        "  size: 7.4 MiB",
        "  connections: 3 of 50",
        "  running since: 2031-01-01 12:00:00 UTC",
    ]
    assert json.loads(run("facts", "mydb", "--json").stdout) == found


def test_waiting_for_the_end_of_something_that_is_gone(script: ScriptedServer, run: Command) -> None:
    assert run("wait", "mydb", "--for", "deleted").exit_code == 0
    assert run("wait", "mydb", "--for", "running").exit_code == 65


def test_waiting_for_what_cannot_come_any_more(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb", CREATING)
    script.answers(f"GET /instances/{ID}", FAILED)
    script.answers(f"GET /instances/{ID}/events", {"items": []})
    done = run("wait", "mydb", "--for", "healthy")
    assert done.exit_code == 1
    assert done.stderr == "interlock: mydb is failed: The disk is full: make room. (out_of_space)\n"


def test_watching_one_until_it_is_deleted(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb", CREATING)
    script.answers(f"GET /instances/{ID}", DELETED)
    script.answers(f"GET /instances/{ID}/events", {"items": STEPS[:1]}, {"items": [happening("vanish", 4), *STEPS[:1]]})
    said = [line.split("  ")[1] for line in run("watch", "mydb").stdout.splitlines()]
    assert said == ["mydb: creating", "mydb: checked", "mydb: deleted"]


def test_watching_all_until_interrupted(script: ScriptedServer, run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([None, None, KeyboardInterrupt])

    def pause(seconds: float) -> None:
        if kind := next(looks):
            raise kind

    monkeypatch.setattr("interlock.cli.instance.watch.time.sleep", pause)
    other = RUNNING | {"id": "other", "name": "other"}
    listings = [[RUNNING, other], [RUNNING | {"health": "unhealthy"}, other], [other]]
    script.answers("GET /instances", *({"items": items, "next": None} for items in listings))
    script.answers(f"GET /instances/{ID}", DELETED)
    done = run("watch", "--json")
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["name"], one["state"], one["health"]) for one in seen] == [
        ("mydb", "running", "healthy"),
        ("other", "running", "healthy"),
        ("mydb", "running", "unhealthy"),
        ("mydb", "deleted", "unknown"),
    ]
    assert done.exit_code == 130


def test_what_listens_nowhere_cannot_be_connected_to(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb", CREATING)
    done = run("connect", "mydb")
    assert (done.exit_code, "wait until it runs" in done.stderr) == (65, True)
    script.answers("GET /instances/mydb", RUNNING | {"state": "stopped"})
    done = run("connect", "mydb")
    assert (done.exit_code, "`interlock instance start mydb --wait` starts it" in done.stderr) == (65, True)
