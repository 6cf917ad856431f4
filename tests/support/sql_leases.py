"""Leases by the SQL functions alone, as a service in another language would use them, and the database's clock."""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID, uuid4

import psycopg

from support.history_recorder import Granted
from support.postgres import execute

_ROW = "SELECT token, grant_id, renewed_at::text, expires_at::text FROM interlock.lease WHERE name = %s"


class Row(NamedTuple):
    """A lease's row, which only requests of its holder may change."""

    token: int
    grant_id: UUID | None
    renewed_at: str | None
    expires_at: str


@dataclass(frozen=True)
class Answer:
    """The answer to a request for a lease. It has a token and the remaining time if the status is `granted`."""

    name: str
    grant_id: UUID
    status: str
    token: int
    remaining: float
    retry_after: float | None

    @property
    def triple(self) -> tuple[str, int, UUID]:
        return self.name, self.token, self.grant_id


def ask(url: str, name: str, *, ttl: float, grant_id: UUID | None = None) -> Answer:
    chosen = grant_id or uuid4()
    call = "SELECT status, token, remaining, retry_after FROM interlock.acquire_v1(%s, %s, %s, 'a test')"
    return Answer(name, chosen, *execute(url, call, name, chosen, ttl)[0])


def acquire(url: str, name: str, *, ttl: float) -> Answer:
    answer = ask(url, name, ttl=ttl)
    assert answer.status == "granted", answer
    return answer


def as_asked(grant: Granted) -> Answer:
    """The grant as an answer of the SQL functions, for use without this process, which may know that it is lost."""
    return Answer(grant.name, grant.grant_id, "granted", grant.token, grant.remaining, None)


def renew(url: str, grant: Answer, *, ttl: float) -> str:
    return str(execute(url, "SELECT status FROM interlock.renew_v1(%s, %s, %s, %s)", *grant.triple, ttl)[0][0])


def release(url: str, grant: Answer) -> str:
    return str(execute(url, "SELECT status FROM interlock.release_v1(%s, %s, %s)", *grant.triple)[0][0])


def may_write(url: str, grant: Answer) -> bool:
    """True if a transaction with the guard of that grant commits."""
    try:
        execute(url, "SELECT interlock.guard_v1(%s, %s, %s)", *grant.triple)
    except psycopg.Error as error:
        if error.sqlstate == "IL001":
            return False
        raise
    return True


def row(url: str, name: str) -> Row:
    return Row(*execute(url, _ROW, name)[0])


def set_clock(url: str, seconds: float) -> None:
    """Stop the database's clock at that time, for all sessions, until it is set again."""
    _tell_time(url, f"timestamptz '2031-01-01 00:00Z' + interval '{seconds} seconds'")


def step_clock(url: str, seconds: float) -> None:
    """Set the database's clock ahead of the true time by so many seconds. It runs on."""
    _tell_time(url, f"pg_catalog.clock_timestamp() + interval '{seconds} seconds'")


def slow_clock(url: str, times: float) -> None:
    """Slow the database's clock down by that factor from now on."""
    [[now]] = execute(url, "SELECT clock_timestamp()::text")
    _tell_time(url, f"timestamptz '{now}' + (pg_catalog.clock_timestamp() - timestamptz '{now}') / {times}")


def _tell_time(url: str, time: str) -> None:
    execute(
        url,
        "CREATE OR REPLACE FUNCTION interlock.now_v1() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE"
        f" AS $$ SELECT {time} $$",
    )
