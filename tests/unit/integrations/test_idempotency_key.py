"""The syntax of an Idempotency-Key."""

import pytest

from interlock.integrations.idempotency.rules import MalformedKey, read_key


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ('"8e03978e-40d5-43dd-bc93-6894a57f9324"', "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        (r'"a \"quoted\" \\ one"', r'a "quoted" \ one'),
        ('"order 7";v=1', "order 7"),
        ('  "x"\t', "x"),
        ("a/b:c+d=", "a/b:c+d="),
        ("k" * 255, "k" * 255),
    ],
)
def test_a_key_is_a_string_with_or_without_its_quotes(value: str, key: str) -> None:
    assert read_key([value]) == key


def test_a_request_without_the_header_has_no_key() -> None:
    assert read_key([]) is None


@pytest.mark.parametrize(
    "value",
    ["", '""', " ", '"open', 'open"', '"a" "b"', "a b", "a,b", "a;b", "gr\xfc\xdfe", '"gr\xfc\xdfe"', '"a\\b"', "\x00"],
)
def test_a_malformed_string_is_refused(value: str) -> None:
    with pytest.raises(MalformedKey, match="is malformed: send a string such as"):
        read_key([value])


def test_a_key_that_is_too_long_is_refused() -> None:
    with pytest.raises(MalformedKey, match="has 256 characters"):
        read_key([f'"{"k" * 256}"'])


def test_two_keys_are_refused() -> None:
    with pytest.raises(MalformedKey, match="send one"):
        read_key(["a", "a"])
