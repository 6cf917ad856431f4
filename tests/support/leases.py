"""Grants without the engine that keeps them, and thieves: enough to test what a guard does between the two."""

from dataclasses import dataclass, field
from uuid import UUID, uuid4

from interlock.errors import LeaseLost
from support.postgres import execute
from support.sql_leases import Answer, acquire, ask, release, renew, step_clock


@dataclass
class Grant:
    """A grant that the database knows of. Nobody renews it, and it is trusted until a test says otherwise."""

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
    """The database's clock goes on by an hour, and nobody takes the lease."""
    ahead = "SELECT extract(epoch FROM interlock.now_v1() - clock_timestamp())::float"
    step_clock(grant.url, execute(grant.url, ahead)[0][0] + 3600)


def steal(grant: Grant) -> str:
    """What somebody is told who asks for the lease after it has expired. `granted`: that was a theft."""
    expire(grant)
    return ask(grant.url, grant.name, ttl=30).status


def steal_in_a_batch(grant: Grant) -> str:
    """The same, by somebody who asks for several at once."""
    expire(grant)
    batch = (
        "SELECT status FROM interlock.acquire_many_v1("
        "ARRAY[%s], ARRAY[%s], ARRAY[30], ARRAY[NULL::jsonb], ARRAY[false], 'a thief', 'elsewhere', 1, NULL)"
    )
    return str(execute(grant.url, batch, grant.name, uuid4())[0][0])


def break_open(grant: Grant, *, immediate: bool = True, terminate: bool = False) -> list[int]:
    """An operator takes the lease from its holder; the answer is whose server processes were ended."""
    broken = "SELECT terminated FROM interlock.break_v1(%s, %s, %s, 'a test', 'an operator')"
    (pids,) = execute(grant.url, broken, grant.name, immediate, terminate)[0]
    return list(pids)
