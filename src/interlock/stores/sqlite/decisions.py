"""Decides requests for leases, releases and renewals, each in a transaction that has exclusive use of the file."""

import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from interlock.clock import boottime
from interlock.stores.leases import AcquireAnswer, AcquireRequest, BrokenBy, GrantIdentity, Holder, ReleaseAnswer
from interlock.stores.sqlite.boot import boot_id
from interlock.stores.sqlite.queue import enqueue, first, offer, remove_dead
from interlock.stores.sqlite.transaction import SQL, WriteTransaction

_POLL_WITHIN = 2.0
"""Seconds after which a waiter without notifications polls: well before it expires from the queue."""

BROKEN = "##broken"
"""The suffix of a lease's name in the key of the record of its last break."""


class LeaseState(NamedTuple):
    """The state of a lease. It is free if it has expired, or was held in an earlier boot of the machine."""

    token: int
    grant_id: str | None
    boot: str | None
    expires_at: float
    holder: str | None

    def remaining(self, now: float) -> float:
        return self.expires_at - now if self.boot == boot_id() else 0.0


def peek(connection: sqlite3.Connection, request: AcquireRequest) -> AcquireAnswer | None:
    """Returns the answer to a request that will not wait, if the answer needs no change to the file.

    Returns None if the lease may be granted, or if the request's own grant may not be on the disk yet.
    """
    row = connection.execute(SQL["lease"], (request.name,)).fetchone()
    state, now = LeaseState(*row) if row else None, boottime()
    if state is None or (remaining := state.remaining(now)) <= 0 or state.grant_id == str(request.grant_id):
        return None
    return AcquireAnswer("busy", 0, 0.0, remaining, state.holder)


def decide(
    transaction: WriteTransaction, request: AcquireRequest, holder: Holder, listener: str | None
) -> AcquireAnswer:
    """Grant the lease if it is free and no other waiter is first; else queue the request, if the request waits."""
    row = transaction.execute(SQL["lease"], request.name).fetchone()
    if row is None:
        transaction.execute(SQL["add"], request.name)
        row = transaction.execute(SQL["lease"], request.name).fetchone()
    state = LeaseState(*row)
    remaining = state.remaining(transaction.now)
    if remaining > 0 and state.grant_id == str(request.grant_id):
        transaction.durable = True  # the first answer was lost, perhaps before the grant was on the disk
        return AcquireAnswer("granted", state.token, remaining, 0.0, None)
    if remaining <= 0:
        before = first(transaction, request.name, listener)
        if before is None or before.grant_id == str(request.grant_id):
            return _grant(transaction, request, holder)
    if request.wait:
        enqueue(transaction, request, holder, listener)
        if remaining <= 0:
            offer(transaction, request.name, None)
    retry_after = remaining if remaining > 0 else 1.0
    if listener is None:
        retry_after = min(retry_after, _POLL_WITHIN)
    return AcquireAnswer("busy", 0, 0.0, retry_after, state.holder if remaining > 0 else None)


def _grant(transaction: WriteTransaction, request: AcquireRequest, holder: Holder) -> AcquireAnswer:
    ((token,),) = transaction.connection.execute(
        SQL["grant"],
        {
            "name": request.name,
            "grant_id": str(request.grant_id),
            "now_us": int(transaction.wall * 1_000_000),
            "boot": boot_id(),
            "expires_at": transaction.now + request.ttl,
            "ttl": request.ttl,
            "holder": holder.replica,
            "host": holder.host,
            "pid": holder.pid,
            "metadata": request.metadata,
            "wall": transaction.wall,
        },
    ).fetchall()
    transaction.execute(SQL["dequeue"], str(request.grant_id)).fetchall()
    transaction.durable = True
    return AcquireAnswer("granted", token, request.ttl, 0.0, None)


def release(
    transaction: WriteTransaction, grant: GrantIdentity, listener: str | None, *, if_waited: bool
) -> ReleaseAnswer:
    """Free the lease, and notify the first waiter in its queue."""
    identity = grant.name, grant.token, str(grant.grant_id)
    if not transaction.execute(SQL["is_holder"], *identity).fetchone():
        return ReleaseAnswer("lost", None, False) if if_waited else _release_broken(transaction, grant, listener)
    if if_waited and first(transaction, grant.name, listener) is None:
        return ReleaseAnswer("kept", None, False)
    transaction.execute(SQL["release"], *identity)
    offered = offer(transaction, grant.name, listener)
    if offered is None:
        return ReleaseAnswer("released", None, False)
    return ReleaseAnswer("released", offered.grant_id, offered.listener != listener)


def renew(transaction: WriteTransaction, grants: Sequence[GrantIdentity]) -> list[int]:
    """Returns the positions of the grants that are lost."""
    now, wall, boot = transaction.now, transaction.wall, boot_id()
    return [
        place
        for place, grant in enumerate(grants)
        if transaction.execute(
            SQL["renew"], now + grant.ttl, grant.ttl, wall, grant.name, grant.token, str(grant.grant_id), boot, now
        ).rowcount == 0
    ]  # fmt: skip


def broken_by(transaction: WriteTransaction, grant: GrantIdentity) -> BrokenBy | None:
    """Returns the operator that broke the lease while this grant held it, or None if no operator did."""
    row = transaction.execute(SQL["read_record"], grant.name + BROKEN).fetchone()
    record = None if row is None else json.loads(row[2])
    if record is None or record["token"] != grant.token or record["grant_id"] != str(grant.grant_id):
        return None
    return BrokenBy(record["done_by"], record["reason"])


def _release_broken(transaction: WriteTransaction, grant: GrantIdentity, listener: str | None) -> ReleaseAnswer:
    """The holder of a broken lease has stopped: free the lease before it expires, and notify its first waiter."""
    if broken_by(transaction, grant) is None:
        return ReleaseAnswer("lost", None, False)
    if transaction.execute(SQL["end_broken"], grant.name, grant.token).rowcount == 0:
        return ReleaseAnswer("lost", None, False)
    offered = offer(transaction, grant.name, listener)
    if offered is None:
        return ReleaseAnswer("lost", None, False)
    return ReleaseAnswer("lost", offered.grant_id, offered.listener != listener)


def is_free(transaction: WriteTransaction, name: str) -> bool:
    row = transaction.execute(SQL["lease"], name).fetchone()
    return row is None or LeaseState(*row).remaining(transaction.now) <= 0


def sweep(transaction: WriteTransaction, unused_for: float, listener: str | None) -> int:
    """Delete leases that were not used for `unused_for` seconds, and dead waiters. The highest token is kept."""
    remove_dead(transaction, listener)
    used_before = transaction.wall - unused_for
    rows = transaction.execute(SQL["unused"], boot_id(), transaction.now, used_before).fetchall()
    if rows:
        transaction.execute(SQL["raise_floor"], max(token for _, token in rows))
        for name, _ in rows:
            transaction.execute(SQL["delete_lease"], name)
    return len(rows)
