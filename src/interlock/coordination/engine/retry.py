"""Errors of a store that pass by themselves, and the policy of retries after such an error."""

import asyncio
import random

from interlock import errors
from interlock.coordination.backends.choice import OpenStore
from interlock.coordination.observation.observer import Observer

UNKNOWN = (errors.ConnectionLost, errors.DatabaseUnreachable)
"""After one of these errors the process cannot know if the statement took effect."""

PASSING = (*UNKNOWN, errors.LockNotAvailable, errors.NotPrimary, errors.StoreThrottled)

_NO_SCHEMA = ("3F000", "42883", "42P01")
"""The SQLSTATEs of a missing schema, function and table."""


def is_unknown(error: BaseException) -> bool:
    """Return True if the statement may have taken effect. An error that does not come from the store, such as a full
    stack, leaves that open too."""
    return isinstance(error, UNKNOWN) or not isinstance(error, errors.InterlockError)


class RetryPolicy:
    """The retries of one engine. Until `was_reached` is True, the store's address may be wrong, and no request is
    retried."""

    def __init__(self, store: OpenStore, observer: Observer) -> None:
        self.was_reached = False
        self._store = store
        self._observer = observer

    async def wait_or_raise(self, error: errors.StoreError, failures: int, most: int | None) -> None:
        """Wait before the next attempt, longer after more `failures`. Raises the error after `most` failures, or if a
        retry would not help."""
        if isinstance(error, PASSING):
            self._observer.database_error(error)
            if self.was_reached and failures != most:
                await asyncio.sleep(random.uniform(0.5, 1.0) * min(0.1 * 2**failures, 1.0))
                return
        elif isinstance(error, errors.StatementFailed) and error.sqlstate in _NO_SCHEMA:
            await self._store.verify()  # raises an error that names the remedy
        raise error
