"""The control plane's problems become errors with its text, and with the exit status of its error."""

import json
from typing import Any

import pytest

from interlock.cli.server.problems import error_of
from interlock.errors import KeyRefused, ServerRefused, ServerUnreachable

URL = "http://127.0.0.1:8080"


def refused(status: int, **problem: Any) -> ServerRefused:
    error = error_of(status, json.dumps({"title": "Refused", **problem}).encode(), URL)
    assert isinstance(error, ServerRefused)
    return error


@pytest.mark.parametrize(
    ("status", "code", "exit_status"),
    [
        (409, "name_taken", 73),
        (409, "instance_busy", 75),
        (404, "instance_unknown", 65),
        (422, "bad_spec", 65),
        (422, "invalid_request", 65),
        (502, "driver_unreachable", 69),
        (503, "database_unreachable", 69),
        (500, "something_new", 69),
    ],
)
def test_the_exit_status_is_that_of_the_error(status: int, code: str, exit_status: int) -> None:
    error = refused(status, code=code, detail="It is so.")
    assert (str(error), error.code, error.exit_status) == ("It is so.", code, exit_status)


def test_the_mistake_in_each_field_is_shown() -> None:
    wrong = [{"at": "body.name", "message": "too long"}, {"at": "body.tags", "message": "no"}]
    said = str(refused(422, detail="Some fields of the request are missing or wrong.", errors=wrong))
    assert said == "Some fields of the request are missing or wrong. body.name: too long; body.tags: no."


def test_a_refused_key() -> None:
    error = error_of(401, b'{"title": "Unauthorized"}', URL)
    assert isinstance(error, KeyRefused)
    assert "INTERLOCK_API_KEY" in str(error)


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'{"error": "x"}'])
def test_an_answer_of_another_program(body: bytes) -> None:
    error = error_of(404, body, URL)
    assert isinstance(error, ServerUnreachable)
    assert "not Interlock's control plane" in str(error)


def test_the_servers_text_is_escaped_for_the_terminal() -> None:
    assert "\x1b" not in str(refused(422, detail="\x1b[2J"))
