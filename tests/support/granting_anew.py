"""For tests of leases that are let go of and taken again at once: by the SQL functions, alone and in a batch."""

from collections.abc import Callable
from typing import Any

import pytest

from support.protocol import Answer, Client

Again = Callable[..., Answer | None]


def alone(client: Client, held: Answer, **more: Any) -> Answer | None:
    return client.again(held, **more)


def in_a_batch(client: Client, held: Answer, **more: Any) -> Answer | None:
    """With another that can mostly be granted anew as well: what becomes of this one does not depend on that."""
    other = client.ask("another")
    _, answer = client.again_many([other, held], **more)
    return answer


def in_a_batch_of_one(client: Client, held: Answer, **more: Any) -> Answer | None:
    """Nothing else was asked of the database before."""
    (answer,) = client.again_many([held], **more)
    return answer


alone_and_in_a_batch = pytest.mark.parametrize("again", [alone, in_a_batch], ids=["alone", "in a batch"])

ONCE_LOCKED = {
    alone: {"function": "again_v1", "before": "done := interlock.durably_v1();"},
    in_a_batch: {"function": "again_many_v1", "before": "PERFORM interlock.durably_v1();"},
}
"""Where to stop it: it has the row, and has not changed it yet."""


def granted(answer: Answer | None) -> Answer:
    assert answer is not None
    return answer
