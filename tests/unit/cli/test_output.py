"""The results of commands, as text and as JSON."""

from datetime import UTC, datetime

import pytest

from interlock.cli.output import duration_text, escaped, titled_lines, to_json
from interlock.cli.settings import operator_name
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
def test_a_duration_is_rounded_to_its_largest_unit(seconds: float, words: str) -> None:
    assert duration_text(seconds) == words


def test_only_control_characters_are_escaped() -> None:
    assert escaped("Größe 3 µm 日本") == "Größe 3 µm 日本"
    assert escaped("a\x1b[2J\n") == r"a\u001b[2J\n"


def test_tuples_become_lists() -> None:
    assert to_json({"pids": (1, 2)}) == {"pids": [1, 2]}


def test_dataclasses_become_objects() -> None:
    when = datetime(2031, 1, 1, tzinfo=UTC)
    assert to_json([Guard(1, "shop", None, None, when, 1.0)]) == [
        {"pid": 1, "role": "shop", "application": None, "state": None, "began_at": when.isoformat(), "open_for": 1.0}
    ]


def test_only_facts_with_a_value_have_a_line() -> None:
    assert titled_lines("mydb", {"state": "running\x1b", "error": None, "tags": ""}) == "mydb\n  state: running\\u001b"


def test_a_user_without_a_name_is_given_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_name() -> str:
        raise KeyError("getpwuid(): uid not found: 1000")

    monkeypatch.setattr("getpass.getuser", without_name)
    assert operator_name().startswith("uid-")
