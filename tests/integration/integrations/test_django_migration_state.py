import pytest

from interlock.integrations.django.migration_state import Key, unknown_and_newer


@pytest.mark.parametrize(
    ("recorded", "newer"),
    [
        (["0001_a", "0002_b"], []),
        (["0001_a", "0002_b", "0003_c"], ["0003_c"]),
        (["0001_a", "0001_gone", "0002_b"], []),
        (["0002_elsewhere", "0002_b"], []),
        (["0001_squashed_0004_d"], ["0001_squashed_0004_d"]),
        (["unnumbered"], []),
    ],
)
def test_a_newer_migration_has_a_higher_number_than_all_known_ones(recorded: list[str], newer: list[str]) -> None:
    known: set[Key] = {("shop", "0001_a"), ("shop", "0002_b")}
    assert unknown_and_newer([("shop", name) for name in recorded], known) == [("shop", name) for name in newer]


def test_records_of_squashed_migrations_are_not_newer() -> None:
    recorded = [("shop", f"000{number}_x") for number in range(1, 6)] + [("shop", "0001_squashed_0005_x")]
    assert unknown_and_newer(recorded, {("shop", "0001_squashed_0005_x")}) == []


def test_records_of_removed_apps_are_not_newer() -> None:
    assert unknown_and_newer([("gone", "0009_x")], {("shop", "0001_a")}) == []
