"""Leases that were let go of, by somebody who does not wait until the store has answered that.

Each is given back after a millisecond or two; at once, if somebody is known to wait for it. Whoever wants the lease by
then, mostly the very task or thread that had it, takes it over: the store grants it anew, in one step that is a release
and an acquire. Whoever wants it while it is on its way back asks when that has been answered: an acquire never meets a
release of this process that came before it.

What is left behind. Nothing is asked of the store that is not a release, an acquire, or both. After a lost answer each
is asked again by itself: the acquire finds its own grant if it was made, and then the release finds nothing to do.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial

from interlock import errors
from interlock.coordination.errands import UNKNOWN
from interlock.coordination.grant import AsyncGrant
from interlock.coordination.lane import ASKED_ONE_BY_ONE, Lane
from interlock.stores.leases import (
    AcquireAnswer,
    Ask,
    Change,
    GrantsAnew,
    Held,
    LeaseStore,
    PartlyFailed,
    ReleaseAnswer,
)

_ROUND = 0.001
_AT_LAST = 100
"""For so many rounds it is kept for somebody whose request waits until another statement is answered."""

_CHANGING = AcquireAnswer("changing", 0, 0.0, 0.002, None)

Answered = asyncio.Future[tuple[ReleaseAnswer, float]]


class Returns:
    """`asked_for` gives the names that somebody here is about to ask for. `seen` is told of each answer to a release,
    and `in_doubt` of each grant that was perhaps given back."""

    def __init__(
        self,
        store: LeaseStore,
        releasing: Lane[Held, ReleaseAnswer],
        asked_for: Callable[[], Collection[str]],
        seen: Callable[[AsyncGrant, Answered], object],
        in_doubt: Callable[[AsyncGrant], object],
    ) -> None:
        self._store = store
        self._anew = store if isinstance(store, GrantsAnew) else None
        self._releasing = releasing
        self._asked_for = asked_for
        self._seen = seen
        self._in_doubt = in_doubt
        self._unsent: dict[str, tuple[AsyncGrant, int]] = {}
        self._under_way: dict[str, Answered] = {}
        self._round = 0
        self._timer: asyncio.TimerHandle | None = None

    def post(self, grant: AsyncGrant) -> None:
        if self._anew is None or grant.name in self._unsent or self._anew.is_contended(grant.name):
            self._send(grant)
            return
        self._unsent[grant.name] = grant, self._round
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_ROUND, self._send_unwanted)

    def under_way(self, name: str) -> Answered | None:
        """The release of that name that has not been answered."""
        return self._under_way.get(name)

    def send_all(self) -> None:
        while self._unsent:
            self._send(self._unsent.popitem()[1][0])

    async def acquire(self, asks: Sequence[Ask]) -> Sequence[AcquireAnswer]:
        """As the store does; what was let go of goes to the first who asks for it."""
        changes = [Change(found[0], ask) for ask in asks if (found := self._unsent.pop(ask.name, None))]
        if late := [self._under_way[ask.name] for ask in asks if ask.name in self._under_way]:
            await asyncio.wait(late)  # given back while they waited here for another statement: see `_AT_LAST`
        if not changes:
            return await self._store.acquire(asks)
        answers = await self._change(changes)
        if len(answers) < len(asks):
            others = [ask for ask in asks if ask not in answers]
            try:
                answers.update(zip(others, await self._store.acquire(others), strict=True))
            except ASKED_ONE_BY_ONE:  # then whoever was granted it finds its own grant
                raise
            except Exception as error:
                raise PartlyFailed([answers.get(ask, error) for ask in asks]) from error
        return [answers[ask] for ask in asks]

    async def _change(self, changes: Sequence[Change[AsyncGrant]]) -> dict[Ask, AcquireAnswer]:
        assert self._anew is not None
        try:
            answers = await self._anew.again(changes)
        except Exception as error:
            nothing_done = isinstance(error, errors.StoreError) and not isinstance(error, UNKNOWN)
            for change in changes:  # whoever asks again asks after that
                (self._send if nothing_done else self._in_doubt)(change.grant)
            raise
        for change, answer in zip(changes, answers, strict=True):
            if answer is None:  # others come first, most likely
                self._send(change.grant)
        return {change.ask: answer or _CHANGING for change, answer in zip(changes, answers, strict=True)}

    def _send_unwanted(self) -> None:
        """What was there a round ago already, and nobody has come for."""
        self._timer = None
        wanted = self._asked_for() if self._unsent else ()
        for name, (grant, posted) in list(self._unsent.items()):
            if posted <= self._round - (_AT_LAST if name in wanted else 1):
                del self._unsent[name]
                self._send(grant)
        self._round += 1
        if self._unsent:
            self._timer = asyncio.get_running_loop().call_later(_ROUND, self._send_unwanted)

    def _send(self, grant: AsyncGrant) -> None:
        answered = self._under_way[grant.name] = self._releasing.submit(grant)
        answered.add_done_callback(partial(self._answered, grant))

    def _answered(self, grant: AsyncGrant, answered: Answered) -> None:
        if self._under_way.get(grant.name) is answered:
            del self._under_way[grant.name]
        if not answered.cancelled():
            self._seen(grant, answered)
