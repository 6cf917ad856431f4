"""A client of the SQL protocol, which is a single session, and ways to stop it between two statements."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, Self, TypeVar
from uuid import UUID, uuid4

import psycopg

from support.postgres import execute
from support.waiting import eventually

T = TypeVar("T")

_ACQUIRE = """
    SELECT status, token, remaining, retry_after, held_by
      FROM interlock.acquire_v1(%s, %s, %s, %s, wait => %s, listener => %s, direct => %s)
"""
_ACQUIRE_MANY = """
    SELECT status, token, remaining, retry_after, holder
      FROM interlock.acquire_many_v1(%s::text[], %s::uuid[], %s::float8[], %s::jsonb[], %s::bool[], %s, NULL, NULL, %s)
     ORDER BY request
"""
RENEW_MANY = """
    SELECT lost, locked
      FROM (SELECT string_agg(interlock.grant_v1(g.token, g.grant_id), '' ORDER BY g.place) AS grants
              FROM unnest(%s::bigint[], %s::uuid[]) WITH ORDINALITY AS g (token, grant_id, place)) AS g,
           LATERAL interlock.renew_many_v1(%s, g.grants, %s::float8[])
"""
_RELEASE_MANY = """
    SELECT status FROM interlock.release_many_v1(%s, %s::bigint[], %s::uuid[], %s, %s) ORDER BY request
"""
DIRECTLY = "SELECT offered FROM interlock.release_v1(%s, %s, %s, NULL, true)"
_QUEUE = "SELECT grant_id, offered_at IS NOT NULL FROM interlock.waiter WHERE name = %s ORDER BY enqueued_at, grant_id"
_BLOCKED = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
_DEFINITION = """
    SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'interlock'::regnamespace AND proname = %s
"""
_STOP = 1229737100

JUST_QUEUED = {"function": "acquire_v1", "before": "IF EXISTS (SELECT FROM interlock.lease l"}
"""For `stopped`: the waiter is in the queue and has not checked yet that the lease is still held."""
LISTENER = 7
"""The listener number of a session that receives the notifications of all waiters in a test."""


class Answer(NamedTuple):
    """The answer to an acquire."""

    name: str
    grant_id: UUID
    status: str
    token: int
    remaining: float | None
    retry_after: float | None
    held_by: str | None

    @property
    def triple(self) -> tuple[str, int, UUID]:
        return self.name, self.token, self.grant_id


class HandedOn(NamedTuple):
    """The answer to a release that hands the lease over."""

    status: str
    offered: UUID | None
    elsewhere: bool | None
    token: int | None
    until: float | None


class Client:
    """A session in autocommit. `who` is its application name and its name as a holder."""

    def __init__(self, url: str, who: str = "client", *, options: str | None = None) -> None:
        self.who = who
        self.connection = psycopg.connect(url, autocommit=True, application_name=who, options=options)
        self.connection.execute("SET statement_timeout = '15s'")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def end(self, url: str) -> None:
        """Close it, and wait until the server has noticed."""
        pid = self.pid
        self.connection.close()
        eventually(lambda: not execute(url, "SELECT 1 FROM pg_stat_activity WHERE pid = %s", pid))

    @property
    def pid(self) -> int:
        return self.connection.info.backend_pid

    def run(self, statement: str, *args: Any) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(statement, args or None)
        return cursor.fetchall() if cursor.description else []

    def ask(
        self,
        name: str,
        *,
        ttl: float = 30,
        grant_id: UUID | None = None,
        wait: bool = False,
        listener: int | None = None,
        direct: bool = False,
    ) -> Answer:
        chosen = grant_id or uuid4()
        return Answer(name, chosen, *self.run(_ACQUIRE, name, chosen, ttl, self.who, wait, listener, direct)[0])

    def wait(
        self, name: str, *, listener: int | None = None, grant_id: UUID | None = None, direct: bool = False
    ) -> Answer:
        """Enter the queue. `direct`: the holder may hand the lease over without another request of this client."""
        return self.ask(name, wait=True, listener=listener, grant_id=grant_id, direct=direct)

    def acquire(self, name: str, *, ttl: float = 30) -> Answer:
        answer = self.ask(name, ttl=ttl)
        assert answer.status == "granted", answer
        return answer

    def ask_many(
        self,
        names: Sequence[str],
        *,
        ttl: float = 30,
        grant_ids: Sequence[UUID] | None = None,
        wait: bool = False,
        listener: int | None = None,
    ) -> list[Answer]:
        chosen = list(grant_ids or (uuid4() for _ in names))
        arrays = [ttl] * len(chosen), [None] * len(chosen), [wait] * len(chosen)
        rows = self.run(_ACQUIRE_MANY, list(names), chosen, *arrays, self.who, listener)
        return [Answer(name, grant_id, *row) for name, grant_id, row in zip(names, chosen, rows, strict=True)]

    def renew(self, grant: Answer, *, ttl: float = 30) -> str:
        return str(self.run("SELECT status FROM interlock.renew_v1(%s, %s, %s, %s)", *grant.triple, ttl)[0][0])

    def renew_many(self, grants: Sequence[Answer], *, ttl: float = 30) -> tuple[list[int], list[int]]:
        """The positions, from 1, of grants that were lost, and of those that were locked."""
        names, tokens, grant_ids = columns(grants)
        [[lost, locked]] = self.run(RENEW_MANY, tokens, grant_ids, names, [ttl] * len(grants))
        return lost or [], locked or []

    def release(self, grant: Answer, *, listener: int | None = None) -> str:
        return str(self.run("SELECT status FROM interlock.release_v1(%s, %s, %s, %s)", *grant.triple, listener)[0][0])

    def hand_over(self, grant: Answer, *, listener: int | None = None) -> HandedOn:
        [row] = self.run("CALL interlock.hand_on_v1(%s, %s, %s, %s)", *grant.triple, listener)
        return HandedOn(*row)

    def release_many(self, grants: Sequence[Answer], *, if_waited: bool = False) -> list[str]:
        return [str(status) for (status,) in self.run(_RELEASE_MANY, *columns(grants), None, if_waited)]

    def abandon(self, waiter: Answer) -> None:
        self.run("SELECT interlock.abandon_v1(%s, %s)", waiter.name, waiter.grant_id)

    def guard(self, grant: Answer) -> None:
        self.run("SELECT interlock.guard_v1(%s, %s, %s)", *grant.triple)

    def break_open(self, name: str, *, immediate: bool, terminate: bool = False) -> list[tuple[Any, ...]]:
        return self.run("SELECT * FROM interlock.break_v1(%s, %s, %s, 'a test', 'tester')", name, immediate, terminate)

    def listen(self, listener: int) -> None:
        """Hold the lock that shows that `listener` lives. This session must not request leases."""
        assert self.run("SELECT interlock.listen_v1(%s)", listener) == [(True,)]
        self.run(f"LISTEN interlock_{listener}")

    def notified(self) -> list[UUID | None]:
        """The notifications committed since the last call. None if the listener was given up."""
        return [UUID(words.split()[0]) if words else None for words in self.notified_payloads()]

    def notified_payloads(self) -> list[str]:
        """The same as raw payloads, with the grants that were handed over."""
        self.run("SELECT 1")
        return [notice.payload for notice in self.connection.notifies(timeout=0)]


def columns(grants: Sequence[Answer]) -> tuple[list[str], list[int], list[UUID]]:
    return [one.name for one in grants], [one.token for one in grants], [one.grant_id for one in grants]


def queue(url: str, name: str) -> list[tuple[UUID, bool]]:
    """All waiters in the table, dead or alive, and whether each was notified of its turn."""
    return [(grant_id, offered) for grant_id, offered in execute(url, _QUEUE, name)]


def is_blocked(url: str, client: Client) -> bool:
    return execute(url, _BLOCKED, client.pid) != []


@contextmanager
def meanwhile(url: str, client: Client, work: Callable[[], T], *, blocked: bool = True) -> Iterator["Future[T]"]:
    """Run `work` of that client in a thread. When the body begins it waits for a lock, or is done if not `blocked`.

    The work has ended after the body.
    """
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        try:
            eventually(lambda: is_blocked(url, client) or (not blocked and future.done()))
            yield future
        except BaseException:
            client.connection.cancel()  # otherwise the thread, and its waiters, would wait without limit
            raise


def rewrite(url: str, function: str, old: str, new: str, *, everywhere: bool = False) -> None:
    """Replace `old` by `new` in the body of that function in this database, once or `everywhere`."""
    [[definition]] = execute(url, _DEFINITION, function)
    body = str(definition).replace('"interlock".', "interlock.")
    assert old in body, f"{function} has no {old!r}"
    execute(url, body.replace(old, new, -1 if everywhere else 1))


def counted(client: Client, counter: str, work: Callable[[], object]) -> int:
    """The difference that the work makes to the result of the statement."""
    with client.connection.transaction():
        [[before]] = client.run(counter)
        work()
        [[after]] = client.run(counter)
    return int(after - before)


def stop_at(url: str, client: Client, function: str, condition: str, *, of: str = "") -> None:
    """From now on that client stops at this point in the middle of a statement while the advisory lock 1 is held.

    `of` is a column of the condition, so that PostgreSQL does not evaluate one without the other. Of two conditions
    PostgreSQL evaluates the cheaper one first.
    """
    execute(
        url,
        "CREATE FUNCTION interlock.stop_here(name text DEFAULT NULL) RETURNS boolean LANGUAGE plpgsql COST 0.01 AS $$"
        " BEGIN"
        f" IF pg_backend_pid() = {client.pid} THEN PERFORM pg_advisory_xact_lock_shared(1); END IF;"
        " RETURN true; END $$",
    )
    rewrite(url, function, condition, f"AND interlock.stop_here({of}) {condition}")


class Stopped(Generic[T]):
    def __init__(self, go: Callable[[], object], result: Callable[[], T]) -> None:
        self.go = go
        self.result = result


@contextmanager
def stopped(url: str, client: Client, work: Callable[[], T], *, function: str, before: str) -> Iterator[Stopped[T]]:
    """Run `work` of that client in a thread. It stops before that part of the function until the end of the body."""
    stop = (
        f"IF pg_backend_pid() = {client.pid} THEN PERFORM set_config('lock_timeout', '0', true);"
        f" PERFORM pg_advisory_xact_lock_shared({_STOP});"
        " PERFORM FROM pg_class LIMIT 0; END IF;\n"  # refreshes functions that were replaced, such as the clock
    )
    with psycopg.connect(url, autocommit=True) as keeper:
        keeper.execute("SELECT pg_advisory_lock(%s)", [_STOP])
        rewrite(url, function, before, stop + before)
        with meanwhile(url, client, work) as working:

            def go() -> None:
                keeper.execute("SELECT pg_advisory_unlock_all()")

            yield Stopped(go, working.result)
            go()


def note_commits(url: str) -> None:
    """From now on the table `setting` has the `synchronous_commit` of each transaction that changed a lease."""
    execute(
        url,
        """
        CREATE TABLE setting (at text);
        CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO public.setting SELECT current_setting('synchronous_commit');
            RETURN NULL;
        END
        $$;
        CREATE CONSTRAINT TRIGGER noted AFTER UPDATE ON interlock.lease DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION noted();
        """,
    )
