"""`interlock instance …` on a control plane with scripted answers."""

import json
from pathlib import Path

import pytest

from support.instance_answers import CREATING, DELETED, FAILED, RUNNING, happening
from support.scripted_server import LOST, Answer, Command, ScriptedServer, problem

ID = RUNNING["id"]
ACCEPTED = {"name": "mydb", "status": 202, "instance": CREATING}
STEPS = [happening("checked", 0.5), happening("provisioned", 1.5), happening("come_up", 2.5)]


def interrupted(seconds: float) -> None:
    raise KeyboardInterrupt


def test_create_prints_the_next_step(script: ScriptedServer, run: Command) -> None:
    script.answers("POST /instances", Answer(CREATING, 202))
    done = run("create", "mydb", "--version", "17", "--parameter", "work_mem=8MB", "--tag", "team=shop")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == "mydb is creating: `interlock instance wait mydb` waits until the work is done.\n"
    wanted = {"name": "mydb", "version": "17", "parameters": {"work_mem": "8MB"}, "tags": {"team": "shop"}}
    assert script.asked[0].body == wanted


def test_create_with_wait_prints_each_step_once_and_then_the_result(script: ScriptedServer, run: Command) -> None:
    script.answers("POST /instances", Answer(CREATING, 202))
    script.answers(f"GET /instances/{ID}", CREATING, CREATING, RUNNING)
    newest_first = [{"items": STEPS[count - 1 :: -1] if count else []} for count in (0, 2, 3)]
    script.answers(f"GET /instances/{ID}/events", *newest_first)
    done = run("create", "mydb", "--wait")
    assert (done.exit_code, done.stderr) == (0, "mydb: checked\nmydb: provisioned\nmydb: running\n")
    assert done.stdout == "mydb is running at 127.0.0.1:15432: `interlock instance connect mydb` opens psql.\n"


def test_earlier_events_are_not_printed(script: ScriptedServer, run: Command) -> None:
    script.answers("POST /instances/mydb/restart", Answer(RUNNING | {"state": "starting", "working": True}, 202))
    script.answers(f"GET /instances/{ID}", RUNNING)
    script.answers(f"GET /instances/{ID}/events", {"items": [happening("stopping", 3), *STEPS[:2]]})
    assert run("restart", "mydb", "--wait").stderr == "mydb: stopping\n"


def test_a_failed_creation_exits_with_1_and_the_error(script: ScriptedServer, run: Command) -> None:
    script.answers("POST /instances", Answer(CREATING, 202))
    script.answers(f"GET /instances/{ID}", FAILED)
    script.answers(f"GET /instances/{ID}/events", {"items": []})
    done = run("create", "mydb", "--wait")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "interlock: mydb is failed: The disk is full: make room. (out_of_space)\n"
    done = run("create", "mydb", "--wait", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (1, FAILED)


def test_the_error_for_a_taken_name_names_its_owner(script: ScriptedServer, run: Command) -> None:
    taken = "The DNS name 'a.example.com' belongs to the instance mydb (5b0c, running): choose another."
    script.answers("POST /instances", problem(409, "name_taken", taken, name="a.example.com", owner="5b0c"))
    done = run("create", "otherdb", "--dns-name", "a.example.com", "--wait")
    assert (done.exit_code, done.stdout, done.stderr) == (73, "", f"interlock: {taken}\n")


def test_a_wait_that_times_out_exits_with_75_and_the_work_goes_on(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb", CREATING)
    script.answers(f"GET /instances/{ID}", CREATING)
    script.answers(f"GET /instances/{ID}/events", {"items": []})
    done = run("wait", "mydb", "--timeout", "0")
    assert done.exit_code == 75
    assert done.stderr.startswith("interlock: mydb is creating after 0 s: the requested work goes on")


@pytest.mark.parametrize("more", [["--timeout", "5"], ["--timeout", "5", "--wait"], ["--wait", "--timeout", "5"]])
def test_timeout_needs_wait(script: ScriptedServer, run: Command, more: list[str]) -> None:
    script.answers("POST /instances/mydb/stop", Answer(RUNNING | {"working": True}, 202))
    script.answers(f"GET /instances/{ID}", RUNNING | {"state": "stopped"})
    script.answers(f"GET /instances/{ID}/events", {"items": []})
    done = run("stop", "mydb", *more)
    if "--wait" in more:
        assert (done.exit_code, done.stdout) == (0, "mydb is stopped.\n")
    else:
        assert (done.exit_code, script.asked) == (2, [])


def test_a_wait_goes_on_across_a_restart_of_the_server(script: ScriptedServer, run: Command) -> None:
    script.answers("POST /instances/mydb/stop", Answer(RUNNING | {"working": True}, 202))
    script.answers(f"GET /instances/{ID}", LOST, LOST, LOST, RUNNING | {"state": "stopped"})
    script.answers(f"GET /instances/{ID}/events", {"items": []})
    done = run("stop", "mydb", "--wait")
    assert (done.exit_code, done.stdout) == (0, "mydb is stopped.\n")


def test_wait_and_watch_do_not_print_events_from_before(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb", RUNNING)
    script.answers(f"GET /instances/{ID}", RUNNING)
    script.answers(f"GET /instances/{ID}/events", {"items": STEPS})
    assert run("wait", "mydb").stderr == ""
    script.answers(f"GET /instances/{ID}", RUNNING, DELETED)
    script.answers(f"GET /instances/{ID}/events", {"items": STEPS}, {"items": [happening("vanish", 4), *STEPS]})
    said = [line.split("  ")[1] for line in run("watch", "mydb").stdout.splitlines()]
    assert said == ["mydb: running, healthy", "mydb: deleted"]


def test_the_timeout_message_says_if_nothing_works_on_the_instance(
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
    monkeypatch.setattr("interlock.cli.record.deadline.time.sleep", interrupted)
    done = run("wait", "mydb", "--for", "stopped")
    assert (done.exit_code, done.stderr.strip()) == (130, "")


def test_a_wait_for_a_server_that_is_away_ends_at_the_timeout(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb", CREATING)
    script.answers(f"GET /instances/{ID}", LOST)
    done = run("wait", "mydb", "--timeout", "0")
    assert (done.exit_code, done.stdout) == (75, "")
    away, over = done.stderr.splitlines()
    assert away.startswith(f"interlock: No control plane answers at {script.url}")
    assert away.endswith("Waiting for the control plane.")
    assert over.startswith("interlock: 0 s have passed, and no control plane answers: start one, and the requested")


@pytest.mark.parametrize("name", ["", ".", "..", "mydb/facts"])
def test_an_invalid_name_is_not_requested(script: ScriptedServer, run: Command, name: str) -> None:
    done = run("delete", name, "--yes")
    assert (done.exit_code, script.asked) == (65, [])
    assert done.stderr == f"interlock: {name!r} can be neither a name nor an id: give the name of one record.\n"


def test_a_name_that_is_not_utf_8_is_unknown(script: ScriptedServer, run: Command) -> None:
    """Python passes on such bytes as surrogates."""
    assert run("show", "caf\udce9").exit_code == 65
    assert run("list", "caf\udce9").exit_code == 65
    assert [one.line for one in script.asked] == ["GET /instances/caf%E9", "GET /instances"]


def test_the_message_of_an_interrupted_wait_says_that_the_work_goes_on(
    script: ScriptedServer, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interlock.cli.record.deadline.time.sleep", interrupted)
    script.answers("POST /instances", Answer(CREATING, 202))
    script.answers(f"GET /instances/{ID}", CREATING)
    script.answers(f"GET /instances/{ID}/events", {"items": []})
    done = run("create", "mydb", "--wait")
    assert (done.exit_code, done.stdout) == (130, "")
    assert "The work on mydb goes on" in done.stderr


def test_many_are_created_from_a_file_each_with_its_own_result(
    script: ScriptedServer, run: Command, tmp_path: Path
) -> None:
    (tmp_path / "wanted.json").write_text(json.dumps([{"name": "mydb"}, {"name": "taken"}]))
    refused = {"name": "taken", "status": 409, "problem": {"detail": "The name 'taken' belongs to another."}}
    items = [ACCEPTED, refused]
    script.answers("POST /instances/bulk-create", {"items": items})
    done = run("create", "--file", str(tmp_path / "wanted.json"))
    assert script.asked[0].body == {"instances": [{"name": "mydb"}, {"name": "taken"}]}
    assert (done.exit_code, done.stdout.partition(":")[0]) == (1, "mydb is creating")
    assert done.stderr.splitlines() == [
        "interlock: taken: The name 'taken' belongs to another.",
        "interlock: 1 of 2 instances failed.",
    ]
    assert json.loads(run("create", "--file", str(tmp_path / "wanted.json"), "--json").stdout) == {"items": items}


def test_more_than_fifty_are_several_requests(script: ScriptedServer, run: Command, tmp_path: Path) -> None:
    wanted = _fifty_one(tmp_path)
    script.answers("POST /instances/bulk-create", {"items": [ACCEPTED] * 50}, {"items": [ACCEPTED]})
    assert run("create", "--file", wanted).exit_code == 0
    assert [len(one.body["instances"]) for one in script.asked] == [50, 1]


def test_accepted_instances_are_printed_even_if_a_later_request_fails(
    script: ScriptedServer, run: Command, tmp_path: Path
) -> None:
    wanted = _fifty_one(tmp_path)
    refused = problem(422, "invalid_request", "Some fields of the request are missing or wrong.")
    script.answers("POST /instances/bulk-create", {"items": [ACCEPTED] * 50}, refused)
    done = run("create", "--file", wanted)
    assert (done.exit_code, done.stdout.count("mydb is creating")) == (1, 50)
    assert done.stderr.splitlines() == [
        "interlock: The request for the last 1 instances failed: Some fields of the request are missing or wrong.",
        "interlock: 1 of 51 instances failed.",
    ]


def test_refused_instances_are_printed_even_if_the_wait_for_the_others_times_out(
    script: ScriptedServer, run: Command, tmp_path: Path
) -> None:
    (tmp_path / "wanted.json").write_text(json.dumps([{"name": "mydb"}, {"name": "taken"}]))
    refused = {"name": "taken", "status": 409, "problem": {"detail": "The name 'taken' belongs to another."}}
    script.answers("POST /instances/bulk-create", {"items": [ACCEPTED, refused]})
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


def test_delete_does_nothing_in_a_script_without_yes(script: ScriptedServer, run: Command) -> None:
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
    monkeypatch.setattr("interlock.cli.record.options._has_terminal", lambda: True)
    script.answers("DELETE /instances/mydb", Answer(DELETED, 202))
    done = run("delete", "mydb", typed=typed)
    assert "Delete mydb, with all data?" in done.stderr
    assert (done.exit_code == 0, script.lines() == ["DELETE /instances/mydb"]) == (deleted, deleted)


def test_abandon_does_nothing_in_a_script_without_yes(script: ScriptedServer, run: Command) -> None:
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


def test_list_reads_no_more_than_its_limit(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances", {"items": [RUNNING], "next": "c1"})
    assert json.loads(run("list", "--limit", "1", "--json").stdout) == [RUNNING]
    assert [one.query["limit"] for one in script.asked] == [["1"]]


def test_an_empty_list(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances", {"items": [], "next": None})
    assert run("list").stdout == "There is no such instance.\n"
    assert run("list", "--json").stdout == "[]\n"


def test_show_an_instance_and_an_unknown_one(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb", RUNNING)
    assert run("show", "mydb").stdout.startswith("mydb\n  state: running, healthy\n")
    assert json.loads(run("show", "mydb", "--json").stdout) == RUNNING
    done = run("show", "unknown")
    assert (done.exit_code, done.stderr) == (65, "interlock: There is no such instance.\n")


def test_set_changes_the_named_parameters_only(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb", RUNNING | {"parameters": {"work_mem": "8MB", "jit": "off", "port": "1"}})
    script.answers(f"PUT /instances/{ID}/parameters", Answer(RUNNING | {"working": True}, 202))
    assert run("set", "mydb", "Work_Mem=64MB", "--unset", "JIT").exit_code == 0
    assert script.asked[-1].body == {"parameters": {"work_mem": "64MB", "port": "1"}}
    assert script.asked[-1].headers["If-Match"] == f'"{RUNNING["revision"]}"'
    assert run("set", "mydb").exit_code == 2


def test_set_is_refused_while_other_work_may_change_parameters(script: ScriptedServer, run: Command) -> None:
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


def test_events_are_printed_in_order_of_time(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb/events", {"items": STEPS[::-1]})
    assert run("events", "mydb").stdout.splitlines() == [
        "2031-01-01 12:00:00 UTC  checked",
        "2031-01-01 12:00:01 UTC  provisioned",
        "2031-01-01 12:00:02 UTC  running",
    ]
    assert json.loads(run("events", "mydb", "--json").stdout) == STEPS


def test_logs_are_escaped_for_the_terminal(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb/logs", Answer(b"LOG:  ready\n\tDETAIL \x1b[2J\n"))
    assert run("logs", "mydb", "-n", "2").stdout == "LOG:  ready\n        DETAIL \\u001b[2J\n"
    lines = [json.loads(line) for line in run("logs", "mydb", "-f", "--json").stdout.splitlines()]
    assert lines == [{"line": "LOG:  ready"}, {"line": "\tDETAIL \x1b[2J"}]
    assert [one.query for one in script.asked] == [{"lines": ["2"]}, {"lines": ["100"], "follow": ["true"]}, {}]


def test_following_a_log_succeeds_only_if_its_instance_is_deleted(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb/logs", Answer(b"LOG:  ready\n"))
    assert run("logs", "mydb", "-f").exit_code == 0
    script.answers("GET /instances/mydb", RUNNING)
    done = run("logs", "mydb", "-f")
    assert (done.exit_code, done.stdout) == (69, "LOG:  ready\n")
    assert "server was stopped" in done.stderr
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


def test_wait_for_deleted_succeeds_for_an_unknown_instance(script: ScriptedServer, run: Command) -> None:
    assert run("wait", "mydb", "--for", "deleted").exit_code == 0
    assert run("wait", "mydb", "--for", "running").exit_code == 65


def test_wait_fails_once_the_state_is_impossible(script: ScriptedServer, run: Command) -> None:
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
    pauses = iter([None, None, KeyboardInterrupt])

    def pause(seconds: float) -> None:
        if kind := next(pauses):
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


def test_connect_needs_a_running_instance(script: ScriptedServer, run: Command) -> None:
    script.answers("GET /instances/mydb", CREATING)
    done = run("connect", "mydb")
    assert (done.exit_code, "wait until it runs" in done.stderr) == (65, True)
    script.answers("GET /instances/mydb", RUNNING | {"state": "stopped"})
    done = run("connect", "mydb")
    assert (done.exit_code, "`interlock instance start mydb --wait` starts it" in done.stderr) == (65, True)
