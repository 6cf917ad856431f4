"""Sessions that call all lease functions at random and at once, and the check of the result.

A trigger records every change of a row while the row is locked, so the records of one name are in order. Guarded writes
are recorded as a user's transaction would write them.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import psycopg

from support.postgres import execute
from support.protocol import LISTENER, Answer, Client

NAMES = ("a", "b", "c", "d", "e")

PREPARE = """
CREATE TABLE change (position bigserial PRIMARY KEY, name text, at timestamptz DEFAULT clock_timestamp(),
    old_token bigint, old_grant uuid, old_expiry timestamptz, token bigint, grant_id uuid, granted_at timestamptz,
    statement text DEFAULT current_query(), timeline integer DEFAULT interlock.timeline_v1());
CREATE TABLE written (position bigserial PRIMARY KEY, name text, token bigint);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.change (name, old_token, old_grant, old_expiry, token, grant_id, granted_at)
    VALUES (new.name, old.token, old.grant_id, old.expires_at, new.token, new.grant_id, new.acquired_at);
    RETURN NULL;
END $$;
CREATE TRIGGER note AFTER UPDATE ON interlock.lease FOR EACH ROW EXECUTE FUNCTION note();
"""

# Each statement returns the rows that violate the rule.
FAULTS = {
    "a lease was granted before it had expired": """
        SELECT * FROM change
         WHERE token <> old_token AND old_expiry > granted_at
           AND (statement !~ '[.](hand_on|release)_v1[(]' OR old_grant IS NULL)""",
    "a lease was granted while one of an older timeline could be trusted": """
        SELECT * FROM change c JOIN interlock.lease_epoch e USING (timeline)
         WHERE c.token <> c.old_token AND c.granted_at < e.since + make_interval(secs => e.longest_ttl)""",
    "a token did not increase": "SELECT * FROM change WHERE token <> old_token AND token <= old_token",
    "a grant changed hands without a new token": """
        SELECT * FROM change
         WHERE token = old_token AND grant_id IS NOT NULL AND grant_id IS DISTINCT FROM old_grant""",
    "two grants had the same token": """
        SELECT name, token FROM change WHERE grant_id IS NOT NULL
         GROUP BY name, token HAVING count(DISTINCT grant_id) > 1""",
    "a row went on from another state than it was left in": """
        SELECT * FROM (SELECT *, lag(token) OVER (PARTITION BY name ORDER BY position) AS left_at FROM change) AS c
         WHERE left_at > old_token""",
    "a guarded write came after one with a higher token": """
        SELECT * FROM (SELECT *, max(token) OVER (PARTITION BY name ORDER BY position) AS highest FROM written) AS w
         WHERE token < highest""",
    "a guarded write was made by a grant that never was": """
        SELECT * FROM written w WHERE NOT EXISTS (
            SELECT FROM change c WHERE c.name = w.name AND c.token = w.token AND c.grant_id IS NOT NULL)""",
}

UNTOLD = """
    SELECT l.name FROM interlock.lease l JOIN interlock.waiter w ON w.name = l.name
     WHERE l.expires_at = '-infinity' GROUP BY l.name
    HAVING bool_or(w.listener = %s) AND bool_and(w.offered_at IS NULL)
"""


class Hammer:
    """One session, with the number of results by kind. Errors are counted by their code."""

    def __init__(self, url: str, number: int, waits: float) -> None:
        self.counts: Counter[str] = Counter()
        self._random = random.Random(number)
        self._client = Client(url, f"hammer {number}")
        self._waits = waits
        self._waiting: list[Answer] = []

    def run(self, rounds: int) -> None:
        with self._client:
            for _ in range(rounds):
                try:
                    self._act()
                except psycopg.Error as error:
                    self.counts[error.sqlstate or "no code"] += 1

    def _act(self) -> None:
        chances = {self._batch: 30, self._one: 30, self._return: 40, self._leave: 10, self._break: 3, self._tidy: 3}
        act: Callable[[], None] = self._random.choices(list(chances), list(chances.values()))[0]
        act()
        if len(self._waiting) > 4:
            self._leave()

    def _names(self) -> list[str]:
        return self._random.choices(NAMES, k=self._random.randint(1, 4))

    def _ttl(self) -> float:
        return self._random.choice((0.1, 0.1, 0.2))

    def _batch(self) -> None:
        wait = self._random.random() < self._waits
        listener = self._random.choice((LISTENER, None, 8))
        self._use(self._client.ask_many(self._names(), ttl=self._ttl(), wait=wait, listener=listener), wait)

    def _one(self) -> None:
        wait = self._random.random() < self._waits
        name = self._random.choice(NAMES)
        direct = self._random.random() < 0.7
        listener = LISTENER if wait else None
        self._use([self._client.ask(name, ttl=self._ttl(), wait=wait, listener=listener, direct=direct)], wait)

    def _return(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._random.shuffle(waiting)
        if waiting:
            names, grant_ids = [one.name for one in waiting], [one.grant_id for one in waiting]
            self._use(self._client.ask_many(names, grant_ids=grant_ids, ttl=0.1, wait=True, listener=LISTENER), True)

    def _leave(self) -> None:
        for waiter in self._waiting:
            self._client.abandon(waiter)
        self._waiting.clear()

    def _break(self) -> None:
        self._client.break_open(self._random.choice(NAMES), immediate=True)

    def _tidy(self) -> None:
        self._client.run("SELECT interlock.offer_v1(%s, NULL)", list(self._random.sample(NAMES, 3)))
        self._client.run("SELECT interlock.sweep_v1(0.05)")

    def _use(self, answers: Sequence[Answer], wait: bool) -> None:
        self.counts.update(answer.status for answer in answers)
        self._waiting += [one for one in answers if wait and one.status in ("busy", "locked", "changing")]
        if any(one.status == "unknown" for one in answers):
            self._client.run("SELECT interlock.register_v1(%s)", [one.name for one in answers])
        held = [one for one in answers if one.status == "granted"]
        for grant in held:
            if self._random.random() < 0.5:
                self._write(grant)
        self._random.shuffle(held)
        if held and self._random.random() < 0.3:
            lost, _ = self._client.renew_many(held, ttl=self._ttl())
            self.counts["lost"] += len(lost)
        chance = self._random.random()
        if held and chance < 0.5:
            self.counts.update(self._client.release_many(held))
        elif chance < 0.9:  # the remaining leases expire
            for grant in held:
                handed = self._client.hand_over(grant)
                self.counts[handed.status if handed.token is None else "handed on"] += 1

    def _write(self, grant: Answer) -> None:
        try:
            with self._client.connection.transaction():
                self._client.guard(grant)
                self._client.run("INSERT INTO written (name, token) VALUES (%s, %s)", grant.name, grant.token)
        except psycopg.Error as error:
            if error.sqlstate != "IL001":
                raise
            self.counts["refused"] += 1
        else:
            self.counts["written"] += 1


def prepare(url: str) -> None:
    execute(url, PREPARE)


def hammer(url: str, *, sessions: int, rounds: int, waits: float) -> Counter[str]:
    """The number of results by kind. `waits` is the probability that a session queues."""
    hammers = [Hammer(url, number, waits) for number in range(sessions)]
    with ThreadPoolExecutor(sessions) as pool:
        list(pool.map(lambda one: one.run(rounds), hammers))
    return sum((one.counts for one in hammers), Counter())


def untold(url: str) -> list[str]:
    """Released leases with a waiter that can be notified and was not."""
    return [name for (name,) in execute(url, UNTOLD, LISTENER)]


def faults(url: str) -> dict[str, int]:
    """The violated rules, and the number of violations of each."""
    found = {fault: execute(url, f"SELECT count(*) FROM ({query}) AS f")[0][0] for fault, query in FAULTS.items()}
    return {fault: count for fault, count in found.items() if count}
