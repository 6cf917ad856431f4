"""Grants without the engine that renews them, and other holders that take them away, for tests of guards."""

from dataclasses import dataclass, field
from uuid import UUID, uuid4

from interlock.errors import LeaseLost
from support.postgres import execute
from support.sql_leases import Answer, acquire, ask, release, renew, step_clock


@dataclass
class Grant:
    """A grant in the database. It is not renewed, and it is trusted until a test changes that."""

    url: str
    answer: Answer
    schema: str = "interlock"
    trusted: bool = field(default=True)

    @property
    def name(self) -> str:
        return self.answer.name

    @property
    def token(self) -> int:
        return self.answer.token

    @property
    def grant_id(self) -> UUID:
        return self.answer.grant_id

    @property
    def triple(self) -> tuple[str, int, UUID]:
        return self.answer.triple

    def check(self) -> None:
        if not self.trusted:
            raise LeaseLost("It is not trusted any more.", name=self.name, token=self.token)

    def renew(self) -> str:
        return renew(self.url, self.answer, ttl=30)

    def release(self) -> str:
        return release(self.url, self.answer)


def granted(url: str, name: str = "feeds") -> Grant:
    return Grant(url, acquire(url, name, ttl=30))


def expire(grant: Grant) -> None:
    """Move the database's clock by an hour. No other holder takes the lease."""
    ahead = "SELECT extract(epoch FROM interlock.now_v1() - clock_timestamp())::float"
    step_clock(grant.url, execute(grant.url, ahead)[0][0] + 3600)


def steal(grant: Grant) -> str:
    """Let another holder request the lease after it has expired. Returns the status; `granted` if it was taken."""
    expire(grant)
    return ask(grant.url, grant.name, ttl=30).status


def steal_in_a_batch(grant: Grant) -> str:
    """The same by a request for several leases at once."""
    expire(grant)
    batch = (
        "SELECT status FROM interlock.acquire_many_v1("
        "ARRAY[%s], ARRAY[%s], ARRAY[30], ARRAY[NULL::jsonb], ARRAY[false], 'a thief', 'elsewhere', 1, NULL)"
    )
    return str(execute(grant.url, batch, grant.name, uuid4())[0][0])


def break_open(grant: Grant, *, immediate: bool = True, terminate: bool = False) -> list[int]:
    """Break the lease as an operator. Returns the server processes that were terminated."""
    broken = "SELECT terminated FROM interlock.break_v1(%s, %s, %s, 'a test', 'an operator')"
    (pids,) = execute(grant.url, broken, grant.name, immediate, terminate)[0]
    return list(pids)
