"""How the command line speaks of facts."""

from datetime import UTC, datetime

import pytest

from interlock.cli.facts import listed, plain, shown, spoken
from interlock.cli.person import person
from interlock.coordination.operators.status import Guard


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.0 s"),
        (9.96, "10.0 s"),
        (10, "10 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "120 min"),
        (7200, "2 h"),
        (200_000, "2 d"),
    ],
)
def test_how_long(seconds: float, words: str) -> None:
    assert spoken(seconds) == words


def test_text_of_others_is_shown_as_it_is_where_that_does_no_harm() -> None:
    assert shown("Größe 3 µm 日本") == "Größe 3 µm 日本"
    assert shown("a\x1b[2J\n") == r"a\u001b[2J\n"


def test_tuples_are_lists() -> None:
    assert plain({"pids": (1, 2)}) == {"pids": [1, 2]}


def test_dataclasses_are_objects() -> None:
    when = datetime(2031, 1, 1, tzinfo=UTC)
    assert plain([Guard(1, "shop", None, None, when, 1.0)]) == [
        {"pid": 1, "role": "shop", "application": None, "state": None, "began_at": when.isoformat(), "open_for": 1.0}
    ]


def test_only_the_facts_that_there_are_have_a_line() -> None:
    assert listed("mydb", {"state": "running\x1b", "error": None, "tags": ""}) == "mydb\n  state: running\\u001b"


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 1000")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert person().startswith("uid-")
