"""Batches of the same leases in different orders from many sessions: code that waits for locks would deadlock."""

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg

from support.protocol import LISTENER, Answer, Client

SESSIONS = 8
ROUNDS = 40
_NAMES = [f"lease {number}" for number in range(40)]
_FEW = _NAMES[:12]

Act = Callable[[Client, random.Random], object]


def _at_once(url: str, act: Act) -> Counter[str]:
    """The number of errors by code."""
    errors: Counter[str] = Counter()

    def run(number: int) -> None:
        chance = random.Random(number)
        with Client(url, f"session {number}", options="-c deadlock_timeout=10ms") as client:
            for _ in range(ROUNDS):
                try:
                    act(client, chance)
                except psycopg.Error as error:
                    errors[error.sqlstate or "no code"] += 1

    with ThreadPoolExecutor(SESSIONS) as pool:
        list(pool.map(run, range(SESSIONS)))
    return errors


def leases_in_any_order(url: str) -> Counter[str]:
    """All sessions acquire, renew and release all leases."""
    with Client(url) as client:
        client.run("SELECT interlock.register_v1(%s)", _NAMES)
        grants = {grant.name: grant for grant in client.ask_many(_NAMES, ttl=600)}

    def act(client: Client, chance: random.Random) -> None:
        some: list[Answer] = chance.sample(list(grants.values()), 40)
        if chance.random() < 0.6:
            client.renew_many(some, ttl=600)
        else:
            client.release_many(some[:10])
            answers = client.ask_many(chance.sample(_NAMES, 20), ttl=600)
            grants.update({answer.name: answer for answer in answers if answer.status == "granted"})

    return _at_once(url, act)


def queues_in_any_order(url: str) -> Counter[str]:
    """No session gets the guarded leases, so all sessions enter the queues, check them and leave."""

    def act(client: Client, chance: random.Random) -> None:
        waiters = client.ask_many(chance.sample(_FEW, 10), wait=True, listener=chance.choice((LISTENER, LISTENER + 1)))
        client.run("SELECT interlock.offer_v1(%s, NULL)", chance.sample(_FEW, 10))
        names, grant_ids = [waiter.name for waiter in waiters], [waiter.grant_id for waiter in waiters]
        client.run("SELECT interlock.abandon_many_v1(%s, %s, NULL)", names, grant_ids)

    with Client(url) as client, Client(url) as guard, guard.connection.transaction():
        client.run("SELECT interlock.register_v1(%s)", _FEW)
        held = client.ask_many(_FEW, ttl=600)
        for grant in held:
            guard.guard(grant)
        client.release_many(held)
        return _at_once(url, act)
