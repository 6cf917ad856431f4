"""What is made of numbered leases behind a door: the lease by the name itself, which they are come to through."""

from collections.abc import Mapping
from typing import Any

from interlock.coordination.lease import CompositeSettings
from interlock.coordination.name import part, whole_name
from interlock.coordination.timing import Duration, LeaseTiming
from interlock.errors import ConfigurationError

_MOST = 1000
_LONGEST = 3.0
"""So long everybody else waits when whoever is at the door dies."""


class DoorSettings(CompositeSettings):
    """`names` are those leases, `passing` the times of who only passes the door. `option` is how users give `count`."""

    __slots__ = ("names", "passing")

    def __init__(
        self,
        name: str,
        what: str,
        count: int,
        option: str,
        ttl: Duration,
        renew_every: Duration | None,
        request_timeout: float | None,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        super().__init__(whole_name(name), ttl, renew_every, request_timeout, metadata)
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= _MOST:
            raise ConfigurationError(f"{option}={count!r}: use a whole number from 1 to {_MOST}.")
        self.names = [part(name, what, number) for number in range(count)]
        self.passing = LeaseTiming.of(min(self.timing.ttl, _LONGEST))
