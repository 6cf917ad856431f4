"""The check of histories finds each kind of violation in a history made by hand, and none in a clean one."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

import pytest

from support.histories import Write, counts, violations
from support.history_recorder import Event, Recorder, recorded

T = TypeVar("T")


def event(kind: Any, at: float, token: int, until: float = 0.0, number: int = 0, grant_id: str = "") -> Event:
    return Event(kind, "feeds", at, until, token, grant_id or f"grant-{token}", number, f"process-{token}")


CLEAN = [
    event("granted", 10, token=1, until=20),
    event("trusted", 15, token=1, until=25),
    event("acknowledged", 16, token=1, number=1),
    event("seen", 16, token=1, until=17),
    event("ended", 18, token=1),
    event("seen", 17.5, token=0, until=18.5, grant_id="another"),
    event("granted", 19, token=5, until=29),
    event("looked", 20, token=5, number=2),
    event("acknowledged", 21, token=5, number=3),
    event("refused", 22, token=1),
    event("granted", 29, token=6, until=39),
]
CLEAN_WRITES = [Write("feeds", 1, 1), Write("feeds", 2, 1), Write("feeds", 3, 5)]


def faults(events: list[Event], writes: list[Write] | None = None) -> list[str]:
    return [found.fault for found in violations(shuffled(events), shuffled(CLEAN_WRITES if writes is None else writes))]


def shuffled(items: list[T]) -> list[T]:
    return random.Random(1).sample(items, len(items))


def test_a_clean_history_has_no_violation() -> None:
    assert faults(CLEAN) == []


def test_an_empty_history_has_no_violation_and_counts_nothing() -> None:
    assert violations([]) == []
    assert not counts([])
    assert counts(CLEAN)["granted"] == 3


def test_a_grant_that_began_while_another_was_trusted_is_found() -> None:
    never_ended = [event for event in CLEAN if event.kind not in ("ended", "seen")]
    assert faults(never_ended) == ["two trusted"]


def test_a_renewal_extends_the_trust() -> None:
    history = [event("granted", 10, 1, until=12), event("trusted", 11, 1, until=20), event("granted", 15, 2, until=16)]
    assert faults(history, []) == ["two trusted"]


def test_a_holder_whose_trust_is_used_up_has_none() -> None:
    history = [event("granted", 10, 1, until=12), event("trusted", 20, 1, until=20), event("granted", 15, 2, until=25)]
    assert faults(history, []) == []


def test_a_short_grant_inside_a_long_one_does_not_hide_the_next() -> None:
    history = [
        event("granted", 10, 1, until=100),
        event("granted", 20, 2, until=21),
        event("granted", 30, 3, until=31),
    ]
    assert faults(history, []) == ["two trusted", "two trusted"]


def test_grants_of_other_names_do_not_matter() -> None:
    other = replace(event("granted", 12, 9, until=90), name="other")
    assert faults([*CLEAN, other]) == []


def test_a_grant_that_was_over_when_its_holder_received_it_has_no_trust() -> None:
    late = event("granted", 30, token=2, until=29.5)
    assert faults([*CLEAN, late]) == []


def test_a_token_that_goes_back_is_found() -> None:
    history = [event("granted", 10, 7, until=20), event("granted", 21, 6, until=30)]
    assert faults(history, []) == ["token went back"]


@pytest.mark.parametrize("until", [30, 20.5], ids=["trusted", "over when it was heard of"])
def test_a_repeated_token_is_found(until: float) -> None:
    history = [event("granted", 10, 7, until=20), event("granted", 21, 7, until=until, grant_id="another")]
    assert faults(history, []) == ["token repeated"]


def test_a_grant_with_two_holders_is_found() -> None:
    history = [event("granted", 10, 7, until=20), event("granted", 21, 7, until=30)]
    assert faults(history, []) == ["grant shared", "two trusted"]


def test_a_guarded_write_of_a_lower_token_after_one_of_a_higher_is_found() -> None:
    late = Write("feeds", 4, 1)
    history = [event("granted", 10, 1, until=20), event("granted", 21, 5, until=30)]
    assert faults(history, [*CLEAN_WRITES, late]) == ["write went back"]


def test_a_write_that_the_next_holder_did_not_see_is_found() -> None:
    history = [event("looked", 20, token=5, number=1)]
    assert faults(history) == ["write came late"]


def test_a_write_that_vanished_is_found() -> None:
    assert faults([event("looked", 20, token=5, number=2)], CLEAN_WRITES[1:]) == ["write vanished"]
    assert faults([event("acknowledged", 20, token=5, number=3)], CLEAN_WRITES[:2]) == ["write vanished"]


@pytest.mark.parametrize("found", ["", "grant-5"], ids=["none", "another"])
def test_a_row_with_another_holder_during_the_trust_is_found(found: str) -> None:
    look = replace(event("seen", 16, 0, until=17), grant_id=found)
    assert faults([*CLEAN, look]) == ["grant taken away"]


@pytest.mark.parametrize(("at", "until"), [(9, 11), (17, 19), (18, 18.5)])
def test_a_row_that_was_read_outside_the_trust_may_have_another_holder(at: float, until: float) -> None:
    look = replace(event("seen", at, 0, until=until), grant_id="")
    assert faults([*CLEAN, look]) == []


def test_a_loss_ends_the_trust_and_needs_a_reason() -> None:
    history = [event("granted", 10, 1, until=20), event("lost", 15, 1), event("granted", 16, 2, until=26)]
    assert violations(history) == []
    assert [found.fault for found in violations(history, calm=True)] == ["lost for nothing"]


class Grant:
    name, token, remaining = "feeds", 4, 10.0
    grant_id: UUID = uuid4()


def test_recorded_events_are_read_back(tmp_path: Path) -> None:
    first, second = Recorder(tmp_path, "first"), Recorder(tmp_path, "second")
    first.granted(Grant())
    second.seen("feeds", Grant.grant_id, began_at=0.0)
    first.looked(Grant(), 3)
    first.acknowledged(Grant(), 9)
    first.refused(Grant())
    first.trusted(Grant())
    first.ended(Grant())
    first.lost(Grant())
    noted = recorded(tmp_path)
    assert [(event.process, event.kind) for event in noted] == [
        *(("first", kind) for kind in ("granted", "looked", "acknowledged", "refused", "trusted", "ended", "lost")),
        ("second", "seen"),
    ]
    assert {event.grant_id for event in noted} == {str(Grant.grant_id)}
    assert noted[0].until == pytest.approx(noted[0].at + Grant.remaining)
    assert [event.number for event in noted[1:3]] == [3, 9]
    first.close()
    second.close()


def test_an_incomplete_line_of_a_killed_process_is_ignored(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, "killed")
    recorder.granted(Grant())
    with (tmp_path / "killed.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "ended"})[:-5])
    assert [event.kind for event in recorded(tmp_path)] == ["granted"]
    recorder.close()
