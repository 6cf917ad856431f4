"""`interlock instance backup …` on a control plane with scripted answers."""

import json
from typing import Any

import pytest

from support.instance_answers import CREATING, RUNNING
from support.scripted_server import Answer, Command, ScriptedServer, problem

MADE: dict[str, Any] = {
    "id": "4f1d7c52-0000-4000-8000-000000000001",
    "instance": RUNNING["id"],
    "instance_name": "mydb",
    "format": "file",
    "state": "made",
    "revision": 2,
    "path": "mydb/20310101T120000Z-4f1d7c52-0000-4000-8000-000000000001.1/archive.dump",
    "size_bytes": 5 * 2**20,
    "sha256": "9f86",
    "server_version": "17.5",
    "error": None,
    "orchestration": "backup-4f1d-back_up-1",
    "working": False,
    "created_at": "2031-01-01T12:00:00Z",
    "updated_at": "2031-01-01T12:00:04Z",
    "made_at": "2031-01-01T12:00:01Z",
    "verified_at": None,
    "deleted_at": None,
}
ID = MADE["id"]
MAKING = MADE | {"state": "making", "working": True, "path": None, "size_bytes": None}
FAILED = MADE | {"state": "failed", "error": {"code": "out_of_space", "message": "The disk is full: make room."}}

NOTHING_YET: dict[str, Any] = {"items": []}


def test_backup_prints_the_request_and_with_wait_the_result(script: ScriptedServer, run: Command) -> None:
    script.answers("POST /instances/mydb/backups", Answer(MAKING, 202))
    done = run("backup", "mydb", "--format", "directory")
    assert done.stdout == (
        "The backup 4f1d7c52 of mydb is making: `interlock instance backups` shows when the work is done.\n"
    )
    assert script.asked[0].body == {"format": "directory"}
    script.answers(f"GET /backups/{ID}", MAKING, MAKING, MADE)
    finished = {"kind": "finish", "recorded_at": MADE["updated_at"], "detail": ""}
    script.answers(f"GET /backups/{ID}/events", NOTHING_YET, {"items": [finished]})
    done = run("backup", "mydb", "--wait")
    assert (done.exit_code, done.stderr) == (0, "The backup 4f1d7c52 of mydb: made\n")
    assert done.stdout == f"The backup 4f1d7c52 of mydb is made, 5 MiB at {MADE['path']}.\n"


def test_a_failed_backup_exits_with_1_and_the_error(script: ScriptedServer, run: Command) -> None:
    script.answers("POST /instances/mydb/backups", Answer(MAKING, 202))
    script.answers(f"GET /backups/{ID}", FAILED)
    script.answers(f"GET /backups/{ID}/events", NOTHING_YET)
    done = run("backup", "mydb", "--wait")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        "interlock: The backup 4f1d7c52 of mydb is failed: The disk is full: make room. (out_of_space)\n"
    )
    done = run("backup", "mydb", "--wait", "--json")
    assert (done.exit_code, json.loads(done.stdout)) == (1, FAILED)


def test_a_wait_that_times_out_exits_with_75(script: ScriptedServer, run: Command) -> None:
    script.answers("POST /backups/4f1d7c52/verify", Answer(MADE | {"working": True}, 202))
    script.answers(f"GET /backups/{ID}", MADE | {"working": True})
    script.answers(f"GET /backups/{ID}/events", NOTHING_YET)
    done = run("verify", "4f1d7c52", "--wait", "--timeout", "0")
    assert done.exit_code == 75
    assert done.stderr.startswith(
        "interlock: The backup 4f1d7c52 of mydb is made after 0 s: the requested work goes on"
    )


def test_verify_prints_that_the_backup_is_verified(script: ScriptedServer, run: Command) -> None:
    script.answers("POST /backups/4f1d7c52/verify", Answer(MADE | {"working": True}, 202))
    script.answers(f"GET /backups/{ID}", MADE | {"verified_at": "2031-01-01T13:00:00Z"})
    script.answers(f"GET /backups/{ID}/events", NOTHING_YET)
    assert "is made and verified, 5 MiB at" in run("verify", "4f1d7c52", "--wait").stdout


def test_backups_are_listed_page_after_page(script: ScriptedServer, run: Command) -> None:
    old = MADE | {"id": "00000000-1", "instance_name": "bad\x1b[31m", "server_version": None}
    script.answers("GET /backups", {"items": [FAILED], "next": "on"}, {"items": [old], "next": None})
    done = run("backups", "mydb", "--state", "made")
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["BACKUP", "INSTANCE", "STATE", "SIZE", "FORMAT", "AGE", "VERIFIED", "VERSION"]
    assert [row.split()[0] for row in rows] == ["4f1d7c52", "00000000"]
    assert "\x1b" not in done.stdout
    script.answers("GET /backups", {"items": [], "next": None})
    assert run("backups").stdout == "There is no such backup.\n"
    script.answers("GET /backups", {"items": [MADE], "next": None})
    assert json.loads(run("backups", "--json").stdout) == [MADE]


def test_restore_creates_an_instance_or_asks_before_it_replaces_one(
    script: ScriptedServer, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.answers("POST /backups/4f1d7c52/restore", Answer(CREATING, 202))
    assert run("restore", "4f1d7c52", "mydb", "--tag", "of=old").exit_code == 0
    assert script.asked[-1].body == {"name": "mydb", "tags": {"of": "old"}}
    asked = len(script.asked)
    refused = run("restore", "4f1d7c52", "--into", "mydb")
    assert (refused.exit_code, "use --yes to restore" in refused.stderr) == (2, True)
    monkeypatch.setattr("interlock.cli.record.options._has_terminal", lambda: True)
    assert run("restore", "4f1d7c52", "--into", "mydb", typed="n\n").exit_code == 1
    assert len(script.asked) == asked
    assert run("restore", "4f1d7c52", "--into", "mydb", typed="y\n").exit_code == 0
    assert script.asked[-1].body == {"into": "mydb"}


@pytest.mark.parametrize("words", [[], ["mydb", "--into", "other"], ["--into", "mydb", "--version", "17"]])
def test_restore_needs_exactly_one_target(script: ScriptedServer, run: Command, words: list[str]) -> None:
    done = run("restore", "4f1d7c52", *words)
    assert (done.exit_code, "Name a new instance" in done.stderr) == (2, True)


def test_delete_backup_asks_and_prints_a_refusal(script: ScriptedServer, run: Command) -> None:
    assert run("delete-backup", "4f1d7c52").exit_code == 2
    said = "The orchestration instance-1-restore-2 restores the backup 4f1d: wait until that orchestration has ended."
    script.answers("DELETE /backups/4f1d7c52", problem(409, "backup_busy", said, orchestration="instance-1-restore-2"))
    done = run("delete-backup", "4f1d7c52", "--yes")
    assert (done.exit_code, done.stderr) == (75, f"interlock: {said}\n")
