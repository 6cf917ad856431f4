"""The identity of requests under a key, the kept part of their answers, and rules that cannot work."""

import json
import math
from typing import Any
from uuid import UUID

import pytest

from interlock.coordination.primitives.once import LARGEST_RESULT
from interlock.errors import ConfigurationError
from interlock.integrations.idempotency.answer import LARGEST, Answer, packed, unpacked
from interlock.integrations.idempotency.rules import KeyedRequest, Rules, is_final

REQUEST = KeyedRequest("ada", "POST", "/orders", "k1", "", "application/json", b"{}")


@pytest.mark.parametrize("change", [{"identity": "bob"}, {"method": "PATCH"}, {"path": "/bills"}, {"key": "k2"}])
def test_a_key_belongs_to_a_client_a_method_and_a_path(change: dict[str, Any]) -> None:
    other = REQUEST._replace(**change)
    assert other.name != REQUEST.name
    assert other.fingerprint == REQUEST.fingerprint


def test_the_parts_of_a_key_are_separated() -> None:
    assert REQUEST._replace(path="/a", key="bc").name != REQUEST._replace(path="/ab", key="c").name


@pytest.mark.parametrize("change", [{"body": b"{} "}, {"query": "a=1"}, {"content_type": "text/plain"}])
def test_a_different_request_under_the_same_key_has_another_fingerprint(change: dict[str, Any]) -> None:
    other = REQUEST._replace(**change)
    assert other.name == REQUEST.name
    assert other.fingerprint != REQUEST.fingerprint


def test_an_identity_may_be_any_object() -> None:
    user = UUID(int=7)
    assert REQUEST._replace(identity=user).name == REQUEST._replace(identity=str(user)).name
    assert REQUEST._replace(identity=None).name != REQUEST._replace(identity="").name


def test_the_name_contains_no_secret() -> None:
    assert "Bearer" not in REQUEST._replace(identity="Bearer abc").name


def test_a_kept_answer_is_the_same_except_for_headers_of_its_moment() -> None:
    headers = [("Content-Type", "image/png"), ("Link", "a"), ("link", "b"), ("Set-Cookie", "s=1"), ("Date", "today")]
    kept = unpacked(json.loads(json.dumps(packed(Answer(201, headers, b"\x00\xff")))))
    assert kept == Answer(201, [("Content-Type", "image/png"), ("Link", "a"), ("link", "b")], b"\x00\xff")


@pytest.mark.parametrize("headers", [[], [("X-Long", "x" * 100_000)], [("X-Odd", "\xff" * 30_000)]])
def test_every_kept_answer_fits_into_a_record(headers: list[tuple[str, str]]) -> None:
    kept = packed(Answer(200, headers, b"\xff" * LARGEST))
    assert len(json.dumps({"request": "f" * 64, "result": kept})) <= LARGEST_RESULT
    assert (kept["body"] is None) is bool(headers)


def test_server_errors_and_try_later_are_not_final() -> None:
    assert [status for status in range(100, 600) if not is_final(status)] == [408, 425, 429, *range(500, 600)]


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ({"methods": "POST"}, "give a tuple of methods"),
        ({"wait": None}, "wait has to be a number of seconds"),
        ({"wait": math.inf}, "wait has to be a number of seconds"),
        ({"wait": -1}, "A timeout of -1 s"),
        ({"keep_for": 0}, "keep_for=0"),
        ({"keep_for": math.nan}, "keep_for=nan"),
        ({"keep": 500}, "keep has to be a function"),
        ({"largest_answer": LARGEST + 1}, "give a number of bytes from 0"),
        ({"largest_request": -1}, "give a number of bytes"),
        ({"ttl": 0}, "ttl"),
    ],
)
def test_rules_that_cannot_work_are_refused(rules: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        Rules(**rules)
