"""Which troubles with a store pass by themselves, and how whoever meets one tries again."""

import asyncio
import random

from interlock import errors
from interlock.coordination.backends.choice import OpenStore
from interlock.coordination.engine.deferred import UNKNOWN
from interlock.coordination.observation.observer import Observer

PASSING = (*UNKNOWN, errors.LockNotAvailable, errors.NotPrimary, errors.StoreThrottled)

_NO_SCHEMA = ("3F000", "42883", "42P01")
"""No such schema, function or table."""


class RetryPolicy:
    """Of one engine. As long as the store was never `reached`, it is perhaps not where it is looked for: that is told
    at once."""

    def __init__(self, store: OpenStore, observer: Observer) -> None:
        self.was_reached = False
        self._store = store
        self._observer = observer

    async def wait_or_raise(self, error: errors.StoreError, failures: int, most: int | None) -> None:
        """Wait a little after so many failures before; after `most`, or if it would not help, the error is raised."""
        if isinstance(error, PASSING):
            self._observer.database_error(error)
            if self.was_reached and failures != most:
                await asyncio.sleep(random.uniform(0.5, 1.0) * min(0.1 * 2**failures, 1.0))
                return
        elif isinstance(error, errors.StatementFailed) and error.sqlstate in _NO_SCHEMA:
            await self._store.verify()
        raise error
