"""Keys for advisory locks."""

from interlock.stores.postgres import AdvisoryKey


def test_a_key_is_two_signed_integers_of_32_bits() -> None:
    keys = [AdvisoryKey.of("gate", str(number)) for number in range(1000)]
    assert all(-(2**31) <= half < 2**31 for key in keys for half in key)
    assert any(half < 0 for key in keys for half in key)


def test_a_thousand_names_have_a_thousand_keys_that_differ_in_both_halves() -> None:
    keys = [AdvisoryKey.of("gate", str(number)) for number in range(1000)]
    assert len(set(keys)) == len({key.first for key in keys}) == len({key.second for key in keys}) == 1000


def test_parts_do_not_run_into_each_other() -> None:
    assert AdvisoryKey.of("a", "bc") != AdvisoryKey.of("ab", "c") != AdvisoryKey.of("abc")


def test_a_name_has_the_same_key_in_every_release() -> None:
    assert AdvisoryKey.of("interlock schema", "interlock") == AdvisoryKey(2086979419, -2135822007)
    assert str(AdvisoryKey(-1, 7)) == "-1, 7"
