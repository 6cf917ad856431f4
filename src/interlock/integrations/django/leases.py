"""Leases on one of Django's databases, and guarded transactions."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from django.db import transaction

from interlock.coordination.lease.lease import AsyncLease
from interlock.coordination.lease.times import Duration
from interlock.coordination.root import AsyncInterlock
from interlock.coordination.sync.grant import Grant
from interlock.coordination.sync.lease import Lease
from interlock.coordination.sync.root import Interlock
from interlock.errors import ConfigurationError
from interlock.integrations.django.configuration import Configuration, configured

R = TypeVar("R", Interlock, AsyncInterlock)


class _Root(Generic[R]):
    """The root object of this process, created at its first use and again after the settings have changed."""

    def __init__(self, kind: type[R]) -> None:
        self._kind: type[R] = kind
        self._made: tuple[Configuration, R] | None = None
        self._making = threading.Lock()

    def get(self) -> R:
        now = configured()
        with self._making:
            if self._made is None or self._made[0] != now:
                self._made = now, self._kind(now.url, **now.options)
            return self._made[1]


_sync = _Root(Interlock)
_async = _Root(AsyncInterlock)


def locks() -> Interlock:
    """The root object that Django's settings describe, for primitives other than leases. This opens no connection."""
    return _sync.get()


def async_locks() -> AsyncInterlock:
    """The root object that Django's settings describe, for asynchronous code. This opens no connection."""
    return _async.get()


def lease(
    name: str,
    *,
    ttl: Duration = 30.0,
    renew_every: Duration | None = None,
    metadata: Mapping[str, Any] | None = None,
    slots: int | None = None,
) -> Lease:
    """Returns the lease `name`, to use as ``with lease("name") as grant: …``.

    Call this function inside functions and not at import, because a test run has its own databases.
    """
    return locks().lease(name, ttl=ttl, renew_every=renew_every, metadata=metadata, slots=slots)


def alease(
    name: str,
    *,
    ttl: Duration = 30.0,
    renew_every: Duration | None = None,
    metadata: Mapping[str, Any] | None = None,
    slots: int | None = None,
) -> AsyncLease:
    """Like `lease`, for ``async with alease("name") as grant: …``."""
    return async_locks().lease(name, ttl=ttl, renew_every=renew_every, metadata=metadata, slots=slots)


@contextmanager
def guarded(grant: Grant, *, using: str | None = None) -> Iterator[None]:
    """A ``transaction.atomic()`` that commits only while the grant is current. It has to be the outermost ``atomic()``.

    The transaction is on the database that keeps the lease. `using` is another alias for that database.
    """
    if not isinstance(grant, Grant):
        raise ConfigurationError(
            "guarded() takes a grant of lease(), not of alease(): Django's transactions are synchronous, so acquire "
            "the lease inside sync_to_async, together with the transaction."
        )
    alias = using or configured().alias
    with transaction.atomic(using=alias):
        grant.guard(alias)
        yield
