"""The queue of waiters for a lease. Every function runs in a transaction that has exclusive use of the file."""

from typing import NamedTuple
from uuid import UUID

from interlock.stores.leases import AcquireRequest, Holder
from interlock.stores.sqlite.boot import boot_id
from interlock.stores.sqlite.transaction import SQL, WriteTransaction

_CLAIM_WITHIN = 1.0
"""Seconds in which a notified waiter has to take the lease, before the next waiter is notified."""
_POLLER_EXPIRES_AFTER = 5.0
"""Seconds for which a polling waiter counts as waiting after its last request."""


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
    """Append a waiter to the queue. A waiter that is in the queue keeps its position."""
    transaction.execute(
        SQL["enqueue"], str(request.grant_id), request.name, boot_id(), listener, transaction.now,
        holder.replica, holder.host, holder.pid,
    )  # fmt: skip


def first(transaction: WriteTransaction, name: str, own_listener: str | None) -> QueueMember | None:
    """Returns the first waiter that is alive and not late. The waiters before it are removed.

    If a notified waiter did not come, its process is stopped. So all waiters with the same listener are removed
    together, and a notification tells their process so when it continues.
    """
    for row in transaction.execute(SQL["queue"], name).fetchall():
        waiter = QueueMember(*row)
        if is_waiting(transaction, waiter, own_listener):
            return waiter
        if waiter.listener is not None and waiter.offered_at is not None and waiter.offered_at >= 0:
            transaction.execute(SQL["give_up"], waiter.listener)
            transaction.wake_ups[waiter.listener] = []
        transaction.execute(SQL["dequeue"], waiter.grant_id).fetchall()
    return None


def has_waiter(transaction: WriteTransaction, name: str, own_listener: str | None) -> bool:
    """True if the queue has a waiter that can be notified. Changes nothing."""
    waiters = (QueueMember(*row) for row in transaction.execute(SQL["queue"], name).fetchall())
    return any(waiter.listener is not None and is_waiting(transaction, waiter, own_listener) for waiter in waiters)


def offer(transaction: WriteTransaction, name: str, own_listener: str | None) -> Offer | None:
    """Notify the first waiter, and return the offer. The caller has to know that the lease is free.

    The caller also has to notify a waiter of `own_listener` itself. Returns None if there is no waiter, or if the first
    waiter was notified before.
    """
    waiter = first(transaction, name, own_listener)
    if waiter is None or waiter.offered_at is not None:
        return None
    transaction.execute(SQL["offer"], transaction.now, waiter.grant_id)
    offered = Offer(UUID(waiter.grant_id), waiter.listener)
    if waiter.listener is not None and waiter.listener != own_listener:
        transaction.wake_ups.setdefault(waiter.listener, []).append(offered.grant_id)
    return offered


def leave(transaction: WriteTransaction, grant_id: UUID, own_listener: str | None) -> Offer | None:
    """Remove a waiter. If the lease was offered to this waiter, offer it to the next waiter, and return that offer."""
    rows = transaction.execute(SQL["dequeue"], str(grant_id)).fetchall()
    return offer(transaction, rows[0][0], own_listener) if rows and rows[0][1] is not None else None


def remove_dead(transaction: WriteTransaction, own_listener: str | None) -> None:
    for row in transaction.execute(SQL["waiters"]).fetchall():
        waiter = QueueMember(*row)
        if not _is_alive(transaction, waiter, own_listener):
            leave(transaction, UUID(waiter.grant_id), own_listener)


def is_waiting(transaction: WriteTransaction, waiter: QueueMember, own_listener: str | None) -> bool:
    if waiter.offered_at is not None and waiter.offered_at <= transaction.now - _CLAIM_WITHIN:
        return False
    return _is_alive(transaction, waiter, own_listener)


def _is_alive(transaction: WriteTransaction, waiter: QueueMember, own_listener: str | None) -> bool:
    if waiter.boot != boot_id():
        return False
    if waiter.listener is None:
        return waiter.seen_at > transaction.now - _POLLER_EXPIRES_AFTER
    return waiter.listener == own_listener or transaction.is_alive(waiter.listener)
