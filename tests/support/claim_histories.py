"""The check of the claims that several processes recorded: it finds every violation.

A committed claim has two periods. *Certain* is from the answer "yours" until the transaction that releases the name
begins to commit: no other owner can have the name then. *Visible* is from the begin of the commit of its own
transaction until the releasing one has committed: others may be answered with this owner.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from support.claim_hammer import Step, Transaction

Span = tuple[float, float]


@dataclass
class Held:
    """The time during which an owner has a name."""

    name: str
    owner: str
    since: str
    certain: Span
    visible: Span
    transaction: Transaction
    given_up_in: Transaction | None = None


def faults(transactions: Iterable[Transaction]) -> list[str]:
    """The violations."""
    known = list(transactions)
    held = _held(known)
    return [
        *_errors(known),
        *_overlaps(held),
        *_taken_away(known, held),
        *_released_twice_or_from_nobody(known, held),
        *(fault for transaction in known for fault in _untrue(transaction, known, held)),
    ]


def steps_that_count(transactions: Iterable[Transaction]) -> Iterator[tuple[Transaction, Step]]:
    for transaction in transactions:
        if transaction.is_committed:
            yield from ((transaction, step) for step in transaction.steps if not step.undone)


def _held(transactions: list[Transaction]) -> dict[int, Held]:
    """Ownerships by the number of the claim. A transfer releases and claims a name at once."""
    held: dict[int, Held] = {}
    for transaction, step in steps_that_count(transactions):
        for answer in step.answers:
            if answer["kind"] == "Claimed" and not answer["replay"]:
                assert transaction.committing_at is not None
                held[answer["id"]] = Held(
                    answer["name"],
                    answer["owner"],
                    answer["since"],
                    (step.ended_at, math.inf),
                    (transaction.committing_at, math.inf),
                    transaction,
                )
    passed = [
        (transaction, step, answer)
        for transaction, step in steps_that_count(transactions)
        for answer in step.answers
        if step.kind == "transfer" and answer["kind"] == "Released" and not answer["replay"]
    ]
    for number, (transaction, step, answer) in enumerate(passed, 1):
        assert transaction.committing_at is not None
        times = (step.ended_at, math.inf), (transaction.committing_at, math.inf)
        held[-number] = Held(answer["name"], str(step.to), answer["released_at"], *times, transaction)
    for transaction, step in steps_that_count(transactions):
        for answer in step.answers:
            if answer["kind"] == "Released" and not answer["replay"] and step.kind != "claim":
                _end(held, answer, transaction)
    return held


def _end(held: dict[int, Held], answer: Mapping[str, Any], transaction: Transaction) -> None:
    """The number of a transferred claim is not in the answer; it is found by name, owner and time."""
    assert transaction.committing_at is not None
    assert transaction.committed_at is not None
    mine = held.get(answer["id"]) or next((one for one in held.values() if _is(one, answer)), None)
    if mine is not None:
        mine.given_up_in = transaction
        mine.certain = (mine.certain[0], min(mine.certain[1], transaction.committing_at))
        mine.visible = (mine.visible[0], min(mine.visible[1], transaction.committed_at))


def _is(held: Held, answer: Mapping[str, Any]) -> bool:
    return (held.name, held.owner, held.since) == (answer["name"], answer["owner"], answer["since"])


def _errors(transactions: list[Transaction]) -> Iterator[str]:
    """Unexpected errors. A serialization failure is expected in a transaction whose snapshot can be too old."""
    for transaction in transactions:
        for step in transaction.steps:
            if step.error and (step.error != "try again" or transaction.level == "READ_COMMITTED"):
                yield f"{step.kind} of {step.names} at {transaction.level} ended with {step.error}"


def _overlaps(held: dict[int, Held]) -> Iterator[str]:
    """Two owners at one time. In the transaction that releases a name, another owner may claim it before the commit."""
    in_order = sorted(held.values(), key=lambda one: one.certain)
    for earlier, later in combinations(in_order, 2):
        handed_on = later.transaction in (earlier.transaction, earlier.given_up_in)
        if earlier.name == later.name and not handed_on and earlier.certain[1] > later.certain[0]:
            yield f"{later.name} was {later.owner}'s while it was {earlier.owner}'s"


def _taken_away(transactions: list[Transaction], held: dict[int, Held]) -> Iterator[str]:
    """Names released while a transaction was open that had been answered "yours already"."""
    for transaction, step in steps_that_count(transactions):
        for answer in step.answers:
            if answer["kind"] == "Claimed" and answer["replay"] and not _gives_up(transaction, answer["name"]):
                assert transaction.committing_at is not None
                relied = (step.ended_at, transaction.committing_at)
                for other in held.values():
                    differs = other.transaction is not transaction and other.owner != answer["owner"]
                    if differs and other.name == answer["name"] and _overlap(other.certain, relied):
                        yield f"{other.name} was {other.owner}'s while {answer['owner']} relied on it"


def _gives_up(transaction: Transaction, name: str) -> bool:
    return any(
        answer["name"] == name and answer["kind"] == "Released" for step in transaction.steps for answer in step.answers
    )


def _released_twice_or_from_nobody(transactions: list[Transaction], held: dict[int, Held]) -> Iterator[str]:
    seen: set[int] = set()
    for _, step in steps_that_count(transactions):
        for answer in step.answers:
            if answer["kind"] == "Released" and not answer["replay"] and step.kind != "claim":
                if answer["id"] in seen:
                    yield f"{answer['name']} was given up twice by {answer['owner']}"
                seen.add(answer["id"])
                if answer["id"] not in held and not any(_is(one, answer) for one in held.values()):
                    yield f"{answer['name']} was given up by {answer['owner']}, who never had it"


def _untrue(transaction: Transaction, all_of_them: list[Transaction], held: dict[int, Held]) -> Iterator[str]:
    """Answers that were true at no moment at which they can have been given."""
    for place, step in enumerate(transaction.steps):
        if step.error:
            continue
        old = transaction.level != "READ_COMMITTED"
        asked = (transaction.begun_at if old else step.begun_at, step.ended_at)
        for answer in step.answers:
            match answer["kind"]:
                case "Taken" if not _is_visible(transaction, place, asked, answer, held):
                    yield f"{step.owner} was told that {answer['name']} is {answer['owner']}'s, and it was not"
                case "Claimed" if answer["replay"] and not _is_visible(transaction, place, asked, answer, held):
                    yield f"{step.owner} was told that {answer['name']} was its own already, and it was not"
                case "Pending" if not _is_open(transaction, step, answer["name"], all_of_them):
                    yield f"{step.owner} was answered that {answer['name']} is pending, and no transaction had it open"
        kinds = {answer["kind"] for answer in step.answers}
        fresh = [answer for answer in step.answers if answer["kind"] == "Claimed" and not answer["replay"]]
        if step.kind == "claim all" and fresh and kinds != {"Claimed"}:
            yield f"{step.owner} was given some of {step.names}, and not all"


def _is_visible(
    transaction: Transaction, place: int, asked: Span, answer: Mapping[str, Any], held: dict[int, Held]
) -> bool:
    """Visible are commits, and earlier steps of the transaction itself, even if they were rolled back later."""
    for one in held.values():
        if one.transaction is not transaction and _is(one, answer) and _overlap(one.visible, asked):
            return True
    for step in transaction.steps[:place]:
        for own in step.answers:
            if own["kind"] == "Claimed" and own["name"] == answer["name"] and own["owner"] == answer["owner"]:
                return True
            if own["kind"] == "Released" and own["name"] == answer["name"] and step.to == answer["owner"]:
                return True
    return False


def _is_open(transaction: Transaction, step: Step, name: str, all_of_them: list[Transaction]) -> bool:
    return any(
        other.process != transaction.process
        and _overlap((other.begun_at, other.ended_at), (step.begun_at, step.ended_at))
        and any(name in one.names for one in other.steps)
        for other in all_of_them
    )


def _overlap(one: Span, other: Span) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
