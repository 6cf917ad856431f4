"""`interlock lease` with the leases in a SQLite file."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from interlock import Grant, Interlock
from support.programs import interlock
from support.waiting import eventually


@pytest.fixture
def locks(url: str) -> Iterator[Interlock]:
    with Interlock(url, replica="web-1") as locks:
        yield locks


@contextmanager
def waiting(url: str, name: str, mine: sqlite3.Connection) -> Iterator[list[Grant]]:
    """Another process's thread, as it were, in the queue; and the grant that it gets in the end."""
    got: list[Grant] = []
    with Interlock(url, replica="web-2") as others:
        thread = threading.Thread(target=lambda: got.append(others.lease(name).acquire()))
        thread.start()
        eventually(lambda: mine.execute("SELECT 1 FROM interlock_waiter WHERE name = ?", [name]).fetchone())
        yield got
        thread.join()


def told(url: str, *arguments: str) -> list[str]:
    done = interlock(*arguments, url=url)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def facts(url: str, *arguments: str) -> Any:
    return json.loads("\n".join(told(url, *arguments, "--json")))


def test_list_and_show_name_holders_and_waiters(url: str, locks: Interlock, mine: sqlite3.Connection) -> None:
    locks.lease("done").acquire().release()
    grant = locks.lease("feeds", metadata={"job": "nightly"}).acquire()
    with waiting(url, "feeds", mine) as got:
        by_name = {lease["name"]: lease for lease in facts(url, "lease", "list")}
        assert {name: lease["state"] for name, lease in by_name.items()} == {"done": "free", "feeds": "held"}
        assert (by_name["done"]["waiters"], by_name["feeds"]["waiters"]) == (0, 1)
        assert [lease["name"] for lease in facts(url, "lease", "list", "--held")] == ["feeds"]
        assert [lease["name"] for lease in facts(url, "lease", "list", "--waited")] == ["feeds"]
        assert [lease["name"] for lease in facts(url, "lease", "list", "do")] == ["done"]
        holder, since, heartbeat, metadata, *queue = told(url, "why", "feeds")
        assert holder.startswith("The lease 'feeds' is held by web-1 (process ")
        assert since.endswith(f"with the token {grant.token}.")
        assert heartbeat.endswith("(its ttl is 30 s).")
        assert metadata == 'Its metadata: {"job": "nightly"}'
        assert queue[0] == "1 process waits for it:"
        assert queue[1].strip().startswith("1. web-2 (process ")
        [wait] = facts(url, "lease", "waits")["waits"]
        assert (wait["lease"], wait["waiter"]["name"], wait["holder"]["name"]) == ("feeds", "web-2", "web-1")
        grant.release()
    assert got[0].token > grant.token
    shown = facts(url, "lease", "show", "feeds")
    assert (shown["state"], shown["holder"], shown["last_holder"]["name"]) == ("free", None, "web-2")


def test_a_dead_process_does_not_wait_any_more(url: str, locks: Interlock, mine: sqlite3.Connection) -> None:
    locks.lease("feeds").acquire()
    with mine:
        mine.execute(
            "INSERT INTO interlock_waiter (grant_id, name, boot, listener, seen_at)"
            " SELECT 'a', 'feeds', boot, 'nobody', 0 FROM interlock_lease"
        )
    assert facts(url, "lease", "show", "feeds")["waiting"] == []
    assert mine.execute("SELECT count(*) FROM interlock_waiter").fetchone() == (1,), "looking changes nothing"


@pytest.mark.exhaustive
def test_a_broken_lease_is_lost_and_not_granted_while_its_holder_may_trust_it(
    url: str, locks: Interlock, mine: sqlite3.Connection
) -> None:
    grant = locks.lease("feeds", ttl=4).acquire()
    lost = threading.Event()
    why: list[str] = []

    def note(reason: str) -> None:
        why.append(reason)
        lost.set()

    grant.on_lost(note)
    with waiting(url, "feeds", mine) as got:
        [taken, _, others] = told(url, "lease", "break", "feeds", "--yes", "--reason", "it hangs")
        assert taken.startswith("The lease 'feeds' was taken from web-1")
        assert others.startswith("The next waiter gets it once")
        assert lost.wait(20)
        assert why == ["broken"]
    assert got[0].token > grant.token


def test_a_break_is_shown_until_another_process_has_the_lease(url: str, locks: Interlock) -> None:
    grant = locks.lease("feeds", ttl=300).acquire()
    told(url, "lease", "break", "feeds", "--yes", "--reason", "it hangs")
    shown = facts(url, "lease", "show", "feeds")
    assert (shown["state"], shown["holder"]) == ("broken", None)
    assert shown["intervention"]["token"] == grant.token
    assert shown["intervention"]["reason"] == "it hangs"
    assert "@" in shown["intervention"]["done_by"]
    again = interlock("lease", "break", "feeds", "--yes", url=url)
    assert (again.returncode, again.stdout) == (1, "")
    assert "The lease 'feeds' is not held: nothing was changed." in again.stderr


def test_an_immediate_break_gives_the_lease_to_a_waiter_at_once(
    url: str, locks: Interlock, mine: sqlite3.Connection
) -> None:
    grant = locks.lease("feeds", ttl=3600).acquire()
    with waiting(url, "feeds", mine) as got:
        told(url, "lease", "break", "feeds", "--yes", "--now")
    assert got[0].token > grant.token
    assert facts(url, "lease", "show", "feeds")["intervention"] is None


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        ("lease show nothing", 1, "There is no lease 'nothing' in this database"),
        ("lease break --yes nothing", 1, "There is no lease 'nothing' in this database"),
        ("lease break --yes feeds --terminate", 78, "a SQLite file has no sessions: leave --terminate out"),
    ],
)
def test_an_impossible_command_is_explained(url: str, locks: Interlock, command: str, status: int, words: str) -> None:
    locks.lease("feeds").acquire()
    done = interlock(*command.split(), url=url)
    assert (done.returncode, done.stdout) == (status, "")
    [line] = done.stderr.splitlines()
    assert words in line
    assert facts(url, "lease", "show", "feeds")["state"] == "held"


def test_looking_makes_neither_a_file_nor_tables(url: str, file: Path) -> None:
    done = interlock("lease", "list", url=url)
    assert done.returncode == 69
    assert f"The file {file} does not exist" in done.stderr
    assert list(file.parent.iterdir()) == []
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE stock (counted INTEGER)")
    connection.close()
    done = interlock("lease", "list", url=url)
    assert done.returncode == 78
    assert f"{file} has no leases yet" in done.stderr
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("stock",)]
    connection.close()
