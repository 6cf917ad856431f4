"""Releases that no caller waits for, in the order in which they were asked for.

Each is sent at once. The store may be asked to acquire on another connection than to release, so a later request for
the same name waits for the release's answer; requests for other names do not.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from interlock.coordination.engine.batch import Batcher
from interlock.coordination.lease.grant import AsyncGrant
from interlock.stores.leases import GrantIdentity, ReleaseAnswer

Answered = asyncio.Future[tuple[ReleaseAnswer, float]]


class UnconfirmedReleases:
    """`on_answer` is called with each answer, or error, that comes."""

    def __init__(
        self, releasing: Batcher[GrantIdentity, ReleaseAnswer], on_answer: Callable[[AsyncGrant, Answered], object]
    ) -> None:
        self._releasing = releasing
        self._on_answer = on_answer
        self._pending: dict[str, Answered] = {}

    def send(self, grant: AsyncGrant) -> None:
        answered = self._pending[grant.name] = self._releasing.submit(grant)
        answered.add_done_callback(partial(self._answered, grant))

    def pending(self, name: str) -> Answered | None:
        """The release of that name that has not been answered."""
        return self._pending.get(name)

    def _answered(self, grant: AsyncGrant, answered: Answered) -> None:
        if self._pending.get(grant.name) is answered:
            del self._pending[grant.name]
        if not answered.cancelled():
            self._on_answer(grant, answered)
