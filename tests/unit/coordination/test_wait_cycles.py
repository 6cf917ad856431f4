"""Cycles of processes that wait for each other."""

import pytest

from interlock.cli.lease_presentation import waits_as_json, waits_as_text
from interlock.coordination.operators.status import Party
from interlock.coordination.operators.waits import Wait, cycles


def waits(*edges: str) -> list[Wait]:
    """``"ab"``: a waits for b, for the lease named ab."""
    return [Wait(edge, Party(edge[0], None, None), Party(edge[1], None, None), 1.0) for edge in edges]


def cycles_of(*edges: str) -> list[str]:
    return sorted("".join(wait.lease[0] for wait in cycle) for cycle in cycles(waits(*edges)))


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ("", []),
        ("ab bc cd", []),
        ("ab ba", ["ab"]),
        ("aa", []),
        ("ab bc ca", ["abc"]),
        ("xa ab bc ca cz", ["abc"]),
        ("ab ba cd dc", ["ab", "cd"]),
        ("ab bd ac cd", []),
        ("ab bc cb", ["bc"]),
        ("ab ac ba ca", ["ab", "ac"]),
        ("ab cb ba", ["ab"]),
        ("ab bc cd da ae ea", ["abcd", "ae"]),
    ],
)
def test_each_cycle_is_found_once(edges: str, expected: list[str]) -> None:
    assert cycles_of(*edges.split()) == expected


def test_an_entry_in_a_queue_alone_is_no_wait() -> None:
    free = Wait("feeds", Party("a", "host", 7), None, 3.0)
    assert cycles([free]) == []
    assert waits_as_text([free]) == "'feeds': a (process 7 on host) waits for its turn, for 3.0 s"
    assert waits_as_text([]) == "No process waits for a lease."


def test_a_cycle_is_shown_with_its_leases() -> None:
    text = waits_as_text(waits("ab", "ba")).splitlines()
    assert text[2].startswith("2 processes wait in a circle.")
    assert text[3:] == ["    a waits for 'ab', which b holds", "    b waits for 'ba', which a holds"]
    facts = waits_as_json(waits("ab", "ba"))
    assert [wait["lease"] for wait in facts["waits"]] == ["ab", "ba"]
    assert [[wait["lease"] for wait in cycle] for cycle in facts["cycles"]] == [["ab", "ba"]]
