"""`interlock lease list`, `show` and `break`, and `interlock why`, as an operator uses them."""

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from support.pooler import pooled
from support.postgres import execute
from support.programs import INTERLOCK, environment, interlock
from support.sql_leases import Answer, acquire, release, renew, step_clock

_HOLD = """
    SELECT grant_id, status, token, remaining, retry_after
      FROM (SELECT %s::uuid AS grant_id) AS g,
           interlock.acquire_v1(%s, g.grant_id, 30, 'web-1', '{"job": "nightly"}', false, 'host-1', 4711)
"""
_QUEUE = "SELECT status FROM interlock.acquire_v1(%s, %s, 30, %s, NULL, true, 'host-2', 12)"


def hold(url: str, name: str = "feeds") -> Answer:
    answer = Answer(name, *execute(url, _HOLD, uuid4(), name)[0])
    assert answer.status == "granted"
    return answer


def queue(url: str, who: str, name: str = "feeds") -> None:
    assert execute(url, _QUEUE, name, uuid4(), who) == [("busy",)]


def shown(url: str, name: str = "feeds") -> list[str]:
    done = interlock("lease", "show", name, url=url)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def facts(url: str, *arguments: str) -> Any:
    done = interlock(*arguments, "--json", url=url)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@contextmanager
def guarding(url: str, grant: Answer) -> "Iterator[psycopg.Connection]":
    """A transaction that guards the grant, until it is ended."""
    with closing(psycopg.connect(url, application_name="billing")) as connection:
        connection.execute("SELECT interlock.guard_v1(%s, %s, %s)", grant.triple)
        yield connection


def was_ended(connection: psycopg.Connection) -> bool:
    with suppress(psycopg.OperationalError):
        connection.execute("SELECT 1")
    return connection.closed


def test_show_lists_the_holder_its_host_and_the_waiters_in_order(interlock_url: str) -> None:
    grant = hold(interlock_url)
    queue(interlock_url, "web-2")
    queue(interlock_url, "web-3")
    holder, since, heartbeat, metadata, waiting, *line = shown(interlock_url)
    assert holder == "The lease 'feeds' is held by web-1 (process 4711 on host-1)."
    assert since.startswith("It has held it since 20")
    assert since.endswith(f"with the token {grant.token}.")
    assert heartbeat.startswith("Its last heartbeat came ")
    assert heartbeat.endswith("(its ttl is 30 s).")
    assert metadata == 'Its metadata: {"job": "nightly"}'
    assert waiting == "2 processes wait for it, in this order:"
    assert [entry.split(", for ")[0].strip() for entry in line] == [
        "1. web-2 (process 12 on host-2)",
        "2. web-3 (process 12 on host-2)",
    ]


def test_show_for_programs(interlock_url: str) -> None:
    grant = hold(interlock_url)
    queue(interlock_url, "web-2")
    found = facts(interlock_url, "lease", "show", "feeds")
    holder = found["holder"]
    assert (found["name"], found["state"], found["token"], found["waiters"]) == ("feeds", "held", grant.token, 1)
    assert (holder["name"], holder["host"], holder["pid"], holder["ttl"]) == ("web-1", "host-1", 4711, 30)
    assert holder["metadata"] == {"job": "nightly"}
    assert holder["acquired_at"] <= holder["renewed_at"] <= found["seen_at"] <= found["expires_at"]
    assert 0 < found["remaining"] <= 30
    assert [(waiter["name"], waiter["waited"] >= 0) for waiter in found["waiting"]] == [("web-2", True)]
    assert str(grant.grant_id) not in json.dumps(found), "a process that knows it can act as the holder"


def test_why_is_an_alias_of_show(interlock_url: str) -> None:
    hold(interlock_url)
    assert interlock("why", "feeds", url=interlock_url).stdout.splitlines()[0] == shown(interlock_url)[0]
    assert facts(interlock_url, "why", "feeds")["state"] == "held"


def test_show_names_the_backend_whose_transaction_guards_it(interlock_url: str) -> None:
    grant = hold(interlock_url)
    with guarding(interlock_url, grant) as transaction:
        pid = transaction.info.backend_pid
        (guard,) = [line for line in shown(interlock_url) if "guards it" in line]
        result = facts(interlock_url, "lease", "show", "feeds")["guards"]
        assert release(interlock_url, grant) == "released"
        assert shown(interlock_url)[0] == (
            "The lease 'feeds' is free, but a transaction still guards it: the next holder gets it when that has ended."
        )
    assert guard.startswith(f"A transaction of server process {pid} guards it (role ")
    assert ", billing, idle in transaction, open for " in guard
    assert [(found["pid"], found["state"]) for found in result] == [(pid, "idle in transaction")]
    assert "guards" not in "\n".join(shown(interlock_url))


def test_show_of_a_free_lease_names_the_last_holder_and_how_it_ended(interlock_url: str) -> None:
    released, expired = hold(interlock_url), hold(interlock_url, "expired")
    assert release(interlock_url, released) == "released"
    first, last, queue = shown(interlock_url)
    assert first == "The lease 'feeds' is free."
    assert last.startswith("It was last held by web-1 (process 4711 on host-1), whose last heartbeat came at 20")
    assert queue == "No process waits for it."
    assert facts(interlock_url, "lease", "show", "feeds")["holder"] is None
    assert facts(interlock_url, "lease", "show", "feeds")["last_holder"]["name"] == "web-1"
    step_clock(interlock_url, 3630)
    assert renew(interlock_url, expired, ttl=30) == "lost"
    assert "It expired 60 min ago: that holder did not release it." in shown(interlock_url, "expired")


def test_show_of_a_name_that_was_registered_and_never_held(interlock_url: str) -> None:
    execute(interlock_url, "SELECT interlock.register_v1('{new}')")
    assert shown(interlock_url, "new")[0] == "The lease 'new' is free, and was never held."


@pytest.mark.parametrize("command", [("lease", "show"), ("lease", "break", "--yes"), ("why",)])
def test_an_unused_name_is_one_line_and_status_1(interlock_url: str, command: tuple[str, ...]) -> None:
    done = interlock(*command, "feedz", url=interlock_url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "interlock: There is no lease 'feedz' in this database: it was never used, or last used over a week ago. "
        "`interlock gate status` shows gates.\n"
    )


def test_the_name_of_a_recorded_operation_shows_its_lease(interlock_url: str) -> None:
    hold(interlock_url, "report##once")
    assert shown(interlock_url, "report")[0].startswith("The lease 'report##once' is held by web-1")


def test_the_name_of_a_semaphore_leads_to_its_slots(interlock_url: str) -> None:
    hold(interlock_url, "openai##1")
    hold(interlock_url, "openai##2")

    done = interlock("why", "openai", url=interlock_url)

    assert done.returncode == 1
    assert "2 leases are parts of it: `interlock lease list 'openai##'` shows them." in done.stderr


def open_sessions(url: str, count: int) -> None:
    """Let the pooler open so many sessions to the server, and keep them for others."""
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(psycopg.connect(url))) for _ in range(count)]
        for client in clients:
            client.execute("SELECT 1")
        for client in clients:
            client.commit()


def test_all_commands_work_through_a_pooler(interlock_url: str) -> None:
    """The pooler gives each transaction to another server process."""
    hold(interlock_url)
    with pooled(interlock_url, "transaction", pool_size=3, in_turn=True) as url:
        open_sessions(url, 3)
        assert [lease["name"] for lease in facts(url, "lease", "list")] == ["feeds"]
        assert facts(url, "why", "feeds")["state"] == "held"
        assert facts(url, "lease", "break", "feeds", "--yes", "--now")["remaining"] == 0
        nested = interlock("lock", "run", "feeds", "--", INTERLOCK, "lock", "run", "feeds", "--", "true", url=url)
        assert "would wait for itself without end" in nested.stderr


def test_list_is_a_table_by_name(interlock_url: str) -> None:
    hold(interlock_url, "shop:feeds")
    queue(interlock_url, "web-2", "shop:feeds")
    release(interlock_url, hold(interlock_url, "shop:Bills"))
    hold(interlock_url, "report")
    header, *rows = interlock("lease", "list", url=interlock_url).stdout.splitlines()
    assert header.split() == ["NAME", "STATE", "HOLDER", "SINCE", "REMAINING", "WAITERS"]
    assert [row.split()[:3] for row in rows] == [
        ["report", "held", "web-1"],
        ["shop:Bills", "free", "0"],
        ["shop:feeds", "held", "web-1"],
    ]
    assert rows[2].split()[-1] == "1"


def test_list_leaves_out_interlocks_own_names_by_default(interlock_url: str) -> None:
    for name in ("feeds", "sweep##every", "interlock:instances:drift"):
        hold(interlock_url, name)
    _, *rows, hidden = interlock("lease", "list", url=interlock_url).stdout.splitlines()
    assert [row.split()[0] for row in rows] == ["feeds"]
    assert hidden == "Not shown: 2 of Interlock's own names. Use --all to show them."
    assert [lease["name"] for lease in facts(interlock_url, "lease", "list")] == ["feeds"]
    assert len(facts(interlock_url, "lease", "list", "--all")) == 3
    assert [lease["name"] for lease in facts(interlock_url, "lease", "list", "sweep")] == ["sweep##every"]


@pytest.mark.exhaustive(beyond=4)
@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([], ["a%", "ab", "b"]),
        (["a"], ["a%", "ab"]),
        (["a%"], ["a%"]),
        (["--held"], ["ab", "b"]),
        (["--waited"], ["b"]),
        (["--held", "a"], ["ab"]),
        (["nothing"], []),
    ],
)
def test_list_filters_by_prefix_and_options(interlock_url: str, options: list[str], names: list[str]) -> None:
    release(interlock_url, hold(interlock_url, "a%"))
    hold(interlock_url, "ab")
    hold(interlock_url, "b")
    queue(interlock_url, "web-2", "b")
    assert [lease["name"] for lease in facts(interlock_url, "lease", "list", *options)] == names


def test_list_without_results_says_so(interlock_url: str) -> None:
    done = interlock("lease", "list", url=interlock_url)
    assert (done.returncode, done.stdout) == (0, "No lease is known in this database.\n")
    done = interlock("lease", "list", "feeds", url=interlock_url)
    assert (done.returncode, done.stdout) == (0, "There is no such lease in this database.\n")


def test_break_takes_the_lease_from_its_holder_but_does_not_free_it(interlock_url: str) -> None:
    grant = hold(interlock_url)
    done = interlock("lease", "break", "feeds", "--yes", "--reason", "stuck", url=interlock_url)
    assert done.returncode == 0, done.stderr
    taken, learns, others = done.stdout.splitlines()
    assert taken == "The lease 'feeds' was taken from web-1 (process 4711 on host-1)."
    assert learns == "Its holder is notified at its next renewal, and has to stop then."
    assert others.startswith("The next waiter gets it once that holder has released it, and in ")
    assert renew(interlock_url, grant, ttl=30) == "lost"
    queue(interlock_url, "web-2")
    state, wait, by, *_ = shown(interlock_url)
    assert state == "The lease 'feeds' was taken from web-1 (process 4711 on host-1)."
    assert wait.startswith("The next waiter gets it once that holder has released it, and in ")
    assert by.startswith("It was broken at 20")
    assert by.endswith(": stuck")
    again = interlock("lease", "break", "feeds", "--yes", url=interlock_url)
    assert (again.returncode, again.stderr) == (1, "interlock: The lease 'feeds' is not held: nothing was changed.\n")


def test_break_is_recorded_with_role_user_and_host(interlock_url: str) -> None:
    grant = hold(interlock_url)
    result = facts(interlock_url, "lease", "break", "feeds", "--yes", "--now", "--reason", "stuck")
    assert result["last_holder"] == {"name": "web-1", "host": "host-1", "pid": 4711}
    assert (result["token"], result["remaining"], result["terminated"]) == (grant.token, 0, [])
    recorded = "SELECT token, holder, immediate, terminated, reason, done_by FROM interlock.lease_intervention"
    ((token, holder, immediate, terminated, reason, done_by),) = execute(interlock_url, recorded)
    assert (token, holder, immediate, terminated, reason) == (grant.token, "web-1", True, [], "stuck")
    assert done_by.startswith("postgres/")
    assert done_by.endswith(f"@{os.uname().nodename}")


def test_break_now_grants_it_to_the_next_at_once(interlock_url: str) -> None:
    hold(interlock_url)
    done = interlock("lease", "break", "feeds", "--yes", "--now", url=interlock_url)
    assert "The next waiter gets it at once" in done.stdout
    assert acquire(interlock_url, "feeds", ttl=30).status == "granted"


def test_break_can_end_the_sessions_that_guard_it(interlock_url: str) -> None:
    grant = hold(interlock_url)
    with guarding(interlock_url, grant) as transaction:
        result = facts(interlock_url, "lease", "break", "feeds", "--yes", "--now", "--terminate")
        assert result["terminated"] == [transaction.info.backend_pid]
        assert was_ended(transaction)
    assert acquire(interlock_url, "feeds", ttl=30).status == "granted"


def test_break_can_end_sessions_that_guard_a_free_lease(interlock_url: str) -> None:
    grant = hold(interlock_url)
    with guarding(interlock_url, grant) as transaction:
        release(interlock_url, grant)
        assert interlock("lease", "break", "feeds", "--yes", url=interlock_url).returncode == 1
        done = interlock("lease", "break", "feeds", "--yes", "--terminate", url=interlock_url)
        assert f"server process {transaction.info.backend_pid}" in done.stdout
        assert was_ended(transaction)
    assert interlock("lease", "break", "feeds", "--yes", "--terminate", url=interlock_url).returncode == 1


@pytest.mark.parametrize(("answer", "status", "state"), [("y", 0, "broken"), ("n", 1, "held")])
def test_break_asks_on_a_terminal(interlock_url: str, answer: str, status: int, state: str) -> None:
    hold(interlock_url)
    done = _on_a_terminal(interlock_url, answer, "lease", "break", "feeds")
    assert done.returncode == status
    assert "The lease 'feeds' is held by web-1" in done.stderr
    assert "Take the lease from its holder? [y/N]" in done.stderr
    assert facts(interlock_url, "lease", "show", "feeds")["state"] == state


def test_break_with_yes_does_not_ask(interlock_url: str) -> None:
    hold(interlock_url)
    done = _on_a_terminal(interlock_url, "n", "lease", "break", "feeds", "--yes")
    assert (done.returncode, done.stderr) == (0, "")


def test_break_without_a_terminal_needs_yes(interlock_url: str) -> None:
    hold(interlock_url)
    done = interlock("lease", "break", "feeds", url=interlock_url)
    assert done.returncode == 2
    assert "This command has to ask, and it has no terminal: use --yes to break the lease 'feeds'." in done.stderr
    assert facts(interlock_url, "lease", "show", "feeds")["state"] == "held"


def _on_a_terminal(url: str, answer: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        return subprocess.run(
            [INTERLOCK, *arguments],
            env=environment(url),
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
