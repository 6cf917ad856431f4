"""The faults of names that are locked by a row alone, which claims do not have."""

from collections.abc import Callable

import pytest

from support.name_locks import ClaimedNames, ForgettingRows, LockingRows, NameLock
from support.name_scenarios import SCENARIOS, the_history_stays

Scenario = Callable[[str, NameLock], None]
each = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)


@pytest.mark.exhaustive(beyond=4)
@each
def test_claims_hold(scenario: Scenario, interlock_url: str) -> None:
    scenario(interlock_url, ClaimedNames(interlock_url))


@pytest.mark.exhaustive(beyond=2)
@each
def test_locking_rows_do_not_hold(scenario: Scenario, database_url: str) -> None:
    lock = ForgettingRows(database_url) if scenario is the_history_stays else LockingRows(database_url)
    with pytest.raises(SCENARIOS[scenario]):
        scenario(database_url, lock)
