"""The rules for the names of leases and session locks."""

import pytest

from interlock.coordination.lease.name import checked_name, own_name, part, parts, whole_name
from interlock.errors import ConfigurationError


@pytest.mark.parametrize(
    "name", ["x", "feeds", "x" * 255, "ä" * 127, "☃" * 85, "shop:42/a b#c", " padded ", "'; DROP--"]
)
def test_text_is_a_name(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize("name", ["", None, 7, b"feeds", ["feeds"]])
def test_an_empty_or_non_text_name_is_refused(name: object) -> None:
    with pytest.raises(ConfigurationError, match="is empty or not text"):
        checked_name(name)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["x" * 256, "ä" * 128, "☃" * 86])
def test_the_limit_counts_bytes_and_not_characters(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"bytes, which is too long: use 255 bytes at most, or a hash"):
        checked_name(name)


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "\x00", "\x7f", "\x85", "a\u2028b", "a\u200bb", "\ue000"])
def test_unprintable_characters_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="control characters"):
        checked_name(name)


def test_text_that_utf_8_cannot_represent_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="UTF-8"):
        checked_name("\ud800")


@pytest.mark.parametrize("name", ["a##b", "##", "openai##slot/1", "a###"])
def test_the_mark_of_interlocks_own_names_is_refused_in_users_names(name: str) -> None:
    for check in (own_name, whole_name):
        with pytest.raises(ConfigurationError, match="marks Interlock's own"):
            check(name)
    assert checked_name(name) == name


def test_all_parts_of_a_name_share_a_prefix_that_no_other_name_has() -> None:
    assert part("openai", "slot", 3) == "openai##slot/3"
    assert part("boot", "once") == "boot##once"
    for other in ("openai#", "openai2", "open", "openai/"):
        assert not part(other, "slot", 3).startswith(parts("openai", "slot"))
    assert not part("openai", "slots", 3).startswith(parts("openai", "slot"))


def test_there_is_room_for_the_parts_of_a_name() -> None:
    longest = "x" * 191
    assert checked_name(part(whole_name(longest), "reader", 999))
    with pytest.raises(ConfigurationError, match="use 191 bytes at most"):
        whole_name(longest + "x")
