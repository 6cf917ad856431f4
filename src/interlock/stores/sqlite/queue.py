"""Who waits for a lease, and whose turn it is. Everything here happens in a transaction that has the file alone."""

from typing import NamedTuple
from uuid import UUID

from interlock.stores.leases import AcquireRequest, Holder
from interlock.stores.sqlite.boot import boot_id
from interlock.stores.sqlite.transaction import SQL, WriteTransaction

_TO_COME = 1.0
"""So long a waiter that was told has to take the lease; then it is the next one's turn."""
_TO_ASK = 5.0
"""So long somebody who cannot be told counts as waiting, after it has asked."""


class QueueMember(NamedTuple):
    grant_id: str
    boot: str
    listener: str | None
    seen_at: float
    offered_at: float | None


class Offer(NamedTuple):
    grant_id: UUID
    listener: str | None


def enqueue(transaction: WriteTransaction, request: AcquireRequest, holder: Holder, listener: str | None) -> None:
    """At the end; whoever waits already keeps its place."""
    transaction.execute(
        SQL["enqueue"], str(request.grant_id), request.name, boot_id(), listener, transaction.now,
        holder.replica, holder.host, holder.pid,
    )  # fmt: skip


def first(transaction: WriteTransaction, name: str, own: str | None) -> QueueMember | None:
    """The first who lives and is not late. Whoever stood before it is removed.

    Who was told and did not come stands still, and so does everybody who listens with it: they are passed over
    together, and told so in case they hear it.
    """
    for row in transaction.execute(SQL["queue"], name).fetchall():
        waiter = QueueMember(*row)
        if is_waiting(transaction, waiter, own):
            return waiter
        if waiter.listener is not None and waiter.offered_at is not None and waiter.offered_at >= 0:
            transaction.execute(SQL["give_up"], waiter.listener)
            transaction.rings[waiter.listener] = []
        transaction.execute(SQL["dequeue"], waiter.grant_id).fetchall()
    return None


def is_waited(transaction: WriteTransaction, name: str, own: str | None) -> bool:
    """Whether somebody waits who can be told. Changes nothing."""
    waiters = (QueueMember(*row) for row in transaction.execute(SQL["queue"], name).fetchall())
    return any(waiter.listener is not None and is_waiting(transaction, waiter, own) for waiter in waiters)


def offer(transaction: WriteTransaction, name: str, own: str | None) -> Offer | None:
    """Tell the first that it is its turn; the caller knows that the lease is free. One of `own` is told by the caller.
    None: nobody waits, or the first was told before."""
    waiter = first(transaction, name, own)
    if waiter is None or waiter.offered_at is not None:
        return None
    transaction.execute(SQL["offer"], transaction.now, waiter.grant_id)
    told = Offer(UUID(waiter.grant_id), waiter.listener)
    if waiter.listener is not None and waiter.listener != own:
        transaction.rings.setdefault(waiter.listener, []).append(told.grant_id)
    return told


def leave(transaction: WriteTransaction, grant_id: UUID, own: str | None) -> Offer | None:
    """Out of the queue. What was offered goes to the next: who that is, if it was told now."""
    rows = transaction.execute(SQL["dequeue"], str(grant_id)).fetchall()
    return offer(transaction, rows[0][0], own) if rows and rows[0][1] is not None else None


def remove_dead(transaction: WriteTransaction, own: str | None) -> None:
    for row in transaction.execute(SQL["waiters"]).fetchall():
        waiter = QueueMember(*row)
        if not _lives(transaction, waiter, own):
            leave(transaction, UUID(waiter.grant_id), own)


def is_waiting(transaction: WriteTransaction, waiter: QueueMember, own: str | None) -> bool:
    if waiter.offered_at is not None and waiter.offered_at <= transaction.now - _TO_COME:
        return False
    return _lives(transaction, waiter, own)


def _lives(transaction: WriteTransaction, waiter: QueueMember, own: str | None) -> bool:
    if waiter.boot != boot_id():
        return False
    if waiter.listener is None:
        return waiter.seen_at > transaction.now - _TO_ASK
    return waiter.listener == own or transaction.is_alive(waiter.listener)
