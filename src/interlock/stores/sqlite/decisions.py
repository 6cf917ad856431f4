"""What becomes of a wish for a lease, and of a lease that is held. In a transaction that has the file alone."""

import json
import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from interlock.clock import boottime
from interlock.stores.leases import AcquireAnswer, AcquireRequest, BrokenBy, GrantIdentity, Holder, ReleaseAnswer
from interlock.stores.sqlite.boot import boot_id
from interlock.stores.sqlite.queue import enqueue, first, offer, remove_dead
from interlock.stores.sqlite.transaction import SQL, WriteTransaction

_NOT_TOLD = 2.0
"""When somebody who cannot be told has to ask again: well before the queue forgets it."""


BROKEN = "##broken"
"""After a lease's name: the key of the record that says who broke it last."""


class LeaseState(NamedTuple):
    """A lease as it stands. Free is what has expired, and what was held before the machine was started again."""

    token: int
    grant_id: str | None
    boot: str | None
    expires_at: float
    holder: str | None

    def remaining(self, now: float) -> float:
        return self.expires_at - now if self.boot == boot_id() else 0.0


def look(connection: sqlite3.Connection, request: AcquireRequest) -> AcquireAnswer | None:
    """What becomes of an ask that will not wait, as far as that can be told without changing anything. None: it may be
    granted, or was and might not be on the disk."""
    row = connection.execute(SQL["lease"], (request.name,)).fetchone()
    seen, now = LeaseState(*row) if row else None, boottime()
    if seen is None or (left := seen.remaining(now)) <= 0 or seen.grant_id == str(request.grant_id):
        return None
    return AcquireAnswer("busy", 0, 0.0, left, seen.holder)


def answer(
    transaction: WriteTransaction, request: AcquireRequest, holder: Holder, listener: str | None
) -> AcquireAnswer:
    """Grant it, if it is free and nobody came before; else queue, if asked to."""
    row = transaction.execute(SQL["lease"], request.name).fetchone()
    if row is None:
        transaction.execute(SQL["add"], request.name)
        row = transaction.execute(SQL["lease"], request.name).fetchone()
    seen = LeaseState(*row)
    left = seen.remaining(transaction.now)
    if left > 0 and seen.grant_id == str(request.grant_id):
        transaction.durable = True  # whoever asks again was not told that it is on the disk
        return AcquireAnswer("granted", seen.token, left, 0.0, None)
    if left <= 0:
        before = first(transaction, request.name, listener)
        if before is None or before.grant_id == str(request.grant_id):
            return _grant(transaction, request, holder)
    if request.wait:
        enqueue(transaction, request, holder, listener)
        if left <= 0:
            offer(transaction, request.name, None)
    again = left if left > 0 else 1.0
    return AcquireAnswer(
        "busy", 0, 0.0, again if listener else min(again, _NOT_TOLD), seen.holder if left > 0 else None
    )


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
    """Free it, and tell the first in its queue."""
    named = grant.name, grant.token, str(grant.grant_id)
    if not transaction.execute(SQL["is_holder"], *named).fetchone():
        return ReleaseAnswer("lost", None, False) if if_waited else _release_broken(transaction, grant, listener)
    if if_waited and first(transaction, grant.name, listener) is None:
        return ReleaseAnswer("kept", None, False)
    transaction.execute(SQL["release"], *named)
    told = offer(transaction, grant.name, listener)
    if told is None:
        return ReleaseAnswer("released", None, False)
    return ReleaseAnswer("released", told.grant_id, told.listener != listener)


def renew(transaction: WriteTransaction, grants: Sequence[GrantIdentity]) -> list[int]:
    """The places of those that are lost."""
    now, wall, boot = transaction.now, transaction.wall, boot_id()
    return [
        place
        for place, grant in enumerate(grants)
        if transaction.execute(
            SQL["renew"], now + grant.ttl, grant.ttl, wall, grant.name, grant.token, str(grant.grant_id), boot, now
        ).rowcount == 0
    ]  # fmt: skip


def broken_by(transaction: WriteTransaction, grant: GrantIdentity) -> BrokenBy | None:
    """Who broke the lease while this grant held it; None: no operator did."""
    row = transaction.execute(SQL["read_record"], grant.name + BROKEN).fetchone()
    record = None if row is None else json.loads(row[2])
    if record is None or record["token"] != grant.token or record["grant_id"] != str(grant.grant_id):
        return None
    return BrokenBy(record["done_by"], record["reason"])


def _release_broken(transaction: WriteTransaction, grant: GrantIdentity, listener: str | None) -> ReleaseAnswer:
    """The holder of a broken lease has stopped: free it before its time is over, and tell the first in its queue."""
    if broken_by(transaction, grant) is None:
        return ReleaseAnswer("lost", None, False)
    if transaction.execute(SQL["end_broken"], grant.name, grant.token).rowcount == 0:
        return ReleaseAnswer("lost", None, False)
    told = offer(transaction, grant.name, listener)
    if told is None:
        return ReleaseAnswer("lost", None, False)
    return ReleaseAnswer("lost", told.grant_id, told.listener != listener)


def is_free(transaction: WriteTransaction, name: str) -> bool:
    row = transaction.execute(SQL["lease"], name).fetchone()
    return row is None or LeaseState(*row).remaining(transaction.now) <= 0


def sweep(transaction: WriteTransaction, unused_for: float, listener: str | None) -> int:
    """Delete what nobody has used for so long, and waiters that are gone. The highest token is kept."""
    remove_dead(transaction, listener)
    used_before = transaction.wall - unused_for
    rows = transaction.execute(SQL["unused"], boot_id(), transaction.now, used_before).fetchall()
    if rows:
        transaction.execute(SQL["raise_floor"], max(token for _, token in rows))
        for name, _ in rows:
            transaction.execute(SQL["forget"], name)
    return len(rows)
