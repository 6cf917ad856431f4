"""Variants of one worker's process: its environment differs, or its copy of the library is broken."""

import random
import time
from typing import Any

from interlock.clock import boottime
from interlock.coordination.lease.grant import AsyncGrant
from interlock.stores.postgres.leases import PostgresLeases


def become(variant: str) -> None:
    """Apply the variant, before the library is used."""
    if variant:
        variants = {
            "wall clock astray": wall_clock_astray,
            "trust from receipt": trust_from_receipt,
            "always acquiring": always_acquiring,
        }
        variants[variant]()


def wall_clock_astray() -> None:
    """The machine's time of day is set an hour forward or back repeatedly. This must not affect the library."""
    true_time, true_time_ns = time.time, time.time_ns
    time.time = lambda: true_time() + random.choice((-3600, 0, 3600))
    time.time_ns = lambda: true_time_ns() + random.choice((-3600, 0, 3600)) * 10**9


def trust_from_receipt() -> None:
    """Broken: a grant is trusted for its whole ttl from the arrival of the answer, however late that is."""
    attribute = "trusted_until"
    slot: Any = vars(AsyncGrant)[attribute]

    def trust(grant: AsyncGrant, until: float) -> None:
        slot.__set__(grant, boottime() + grant.ttl - grant.timing.margin if until else until)

    setattr(AsyncGrant, attribute, property(slot.__get__, trust))


def always_acquiring() -> None:
    """Releases have a connection of their own, as under constant load: then a release whose answer was lost does not
    break the connection of other requests."""
    PostgresLeases._free_connection = property(lambda leases: leases._release_connection)  # type: ignore[assignment,method-assign]
