"""The comparison of every state of a record with every observed state."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import get_args

import pytest

from interlock.dns.port import Published
from interlock.instances.drivers.port import Observation, Observed
from interlock.instances.model import State
from interlock.instances.records import InstanceRecord
from interlock.instances.upkeep.comparison import confirmed, dns_verdicts, driver_verdicts, is_settled, is_untouched

NOW = datetime.now(UTC)
SHOP = InstanceRecord(
    id="5b0c",
    name="shop",
    dns_name="shop.example.com",
    driver="paper",
    version=None,
    storage_bytes=None,
    parameters={},
    tags={},
    state="running",
    health="healthy",
    host="192.0.2.7",
    port=5432,
    owner="shop",
    database="shop",
    ca=None,
    error=None,
    error_code=None,
    orchestration="create-1",
    working=False,
    watcher="w",
    created_at=NOW,
    created_by="interlock",
    revision=1,
    updated_at=NOW,
    names_freed_at=None,
    deleted_at=None,
)

# Line by line what is written in docs/reference/drift.md.
DRIFTED = {
    ("running", "absent"): "vanished",
    ("running", "stopped"): "wrong_state",
    ("running", "broken"): "wrong_state",
    ("stopped", "absent"): "vanished",
    ("stopped", "running"): "wrong_state",
    ("stopped", "broken"): "wrong_state",
    ("deleted", "starting"): "orphan",
    ("deleted", "running"): "orphan",
    ("deleted", "stopped"): "orphan",
    ("deleted", "broken"): "orphan",
}


@pytest.mark.parametrize(("state", "seen"), [*product(get_args(State), get_args(Observed))])
def test_drift_is_exactly_the_difference_from_the_record(state: State, seen: Observed) -> None:
    instance = replace(SHOP, state=state, names_freed_at=NOW if state == "deleted" else None)
    found = {kind for kind, detail in driver_verdicts(instance, Observation(seen)).items() if detail}
    wanted = DRIFTED.get((state, seen))
    assert found == ({wanted} if wanted else set())


@pytest.mark.parametrize("seen", get_args(Observed))
def test_existing_instances_without_a_record_or_after_a_failed_creation_are_orphans(seen: Observed) -> None:
    for instance in (None, replace(SHOP, state="failed", names_freed_at=NOW)):
        found = {kind for kind, detail in driver_verdicts(instance, Observation(seen)).items() if detail}
        assert found == (set() if seen == "absent" else {"orphan"})


def test_a_verdict_describes_both_states_and_the_reason() -> None:
    told = driver_verdicts(SHOP, Observation("stopped", detail="It ended."))
    assert told["wrong_state"] == ("The record says running, but the instance is stopped. It ended.")
    words = "The instance exists, but it has no record, so it may belong to another control plane: it is running."
    assert driver_verdicts(None, Observation("running"))["orphan"] == words


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (Published("5b0c", ("192.0.2.7",)), ""),
        (Published(), "is not published"),
        (Published("5b0c", ()), "leads to nothing"),
        (Published("5b0c", ("192.0.2.8",)), "leads to 192.0.2.8, and should lead to 192.0.2.7"),
        (Published("5b0c", ("192.0.2.7", "192.0.2.8")), "leads to 192.0.2.7, 192.0.2.8"),
        (Published("other", ("192.0.2.7",)), "belongs to the instance other"),
        (Published(None, ("192.0.2.7",)), "not Interlock's"),
    ],
)
def test_a_name_leads_to_its_instance_and_to_nothing_else(seen: Published, words: str) -> None:
    told = dns_verdicts(SHOP, seen)["dns"]
    assert words in told
    assert bool(told) == bool(words)


@pytest.mark.parametrize(
    ("host", "target"), [("2001:db8::1", "2001:0db8:0:0::1"), ("DB.example.net", "db.example.net."), ("a.b", "A.b")]
)
def test_another_spelling_is_the_same_target(host: str, target: str) -> None:
    assert dns_verdicts(replace(SHOP, host=host), Published("5b0c", (target,))) == {"dns": ""}


def test_a_record_is_untouched_only_if_no_orchestration_worked_on_it() -> None:
    assert is_untouched(SHOP, replace(SHOP, health="unhealthy", updated_at=NOW + timedelta(hours=1)))
    assert is_untouched(None, None)
    assert not is_untouched(None, SHOP)
    assert not is_untouched(SHOP, replace(SHOP, working=True))
    assert not is_untouched(SHOP, replace(SHOP, orchestration="stop-1"))
    assert not is_untouched(SHOP, replace(SHOP, state="stopped"))
    assert is_settled(SHOP)
    assert not is_settled(replace(SHOP, working=True))


def test_drift_counts_only_if_it_is_observed_twice() -> None:
    assert confirmed({"vanished": "gone", "dns": ""}, {"vanished": "still gone", "dns": "wrong"}) == {
        "vanished": "still gone"
    }
    assert confirmed({"vanished": "gone"}, {"vanished": ""}) == {"vanished": ""}
    assert confirmed({"vanished": "gone"}, {}) == {}
