"""Asking that leases be given to whoever waits for them.

From the moment it is asked, the next one may have it and may have been told so, before we are. So nobody here trusts
such a grant any more until the answer says that it was kept, which it is where nobody waits.
"""

from collections.abc import Sequence

from interlock.coordination.errands import UNKNOWN
from interlock.coordination.grant import AsyncGrant
from interlock.stores.leases import LeaseStore, PartlyFailed, ReleaseAnswer

_KEPT = ("kept", "locked")


async def handed_over(store: LeaseStore, grants: Sequence[AsyncGrant]) -> Sequence[ReleaseAnswer]:
    for grant in grants:
        grant.handing = True
    try:
        answers = await store.hand_over(grants)
    except PartlyFailed as partly:
        _trust_again(grants, partly.outcomes)
        raise
    except Exception as error:
        _trust_again(grants, [error] * len(grants))
        raise
    _trust_again(grants, answers)
    return answers


def _trust_again(grants: Sequence[AsyncGrant], outcomes: Sequence[object]) -> None:
    for grant, outcome in zip(grants, outcomes, strict=True):
        grant.handing = not _was_kept(outcome)


def _was_kept(outcome: object) -> bool:
    """Also where the request was refused: then nothing was changed."""
    if isinstance(outcome, ReleaseAnswer):
        return outcome.status in _KEPT
    return not isinstance(outcome, UNKNOWN)
