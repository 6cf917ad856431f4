"""The configuration file that PostgreSQL reads contains the parameters unchanged."""

import pytest

from interlock.errors import BadSpec
from interlock.instances.drivers.kubernetes import postgresql_conf


@pytest.mark.parametrize(
    ("value", "text"),
    [("4MB", "'4MB'"), ("it's", "'it''s'"), ("a\\b", "'a\\\\b'"), ("", "''"), ("'; x = 1 #", "'''; x = 1 #'")],
)
def test_values_are_quoted(value: str, text: str) -> None:
    assert postgresql_conf.quoted(value) == text


@pytest.mark.parametrize("name", ["work_mem", "auto_explain.log_min_duration", "_x"])
def test_parameters_may_have_any_name_that_postgresql_knows(name: str) -> None:
    postgresql_conf.check({name: "1"})


@pytest.mark.parametrize(
    "name", ["", "Work_Mem", "a b", "x = 1\ny", "a.b.c", "1st", "ssl_key_file", "include", "hba_file"]
)
def test_invalid_and_reserved_names_are_refused(name: str) -> None:
    with pytest.raises(BadSpec):
        postgresql_conf.check({name: "1"})


@pytest.mark.parametrize("value", ["a\nb", "a\x00", "\r"])
def test_a_value_is_one_line(value: str) -> None:
    with pytest.raises(BadSpec, match="control character"):
        postgresql_conf.check({"work_mem": value})


def test_parameters_of_the_driver_come_last() -> None:
    lines = postgresql_conf.files({"zzz.last": "1", "a": "2"})[postgresql_conf.CONF].splitlines()
    assert lines[0].startswith("include_if_exists")
    assert lines.index("a = '2'") < lines.index("zzz.last = '1'") < lines.index("ssl = 'on'")


def test_a_digest_tells_whether_anything_differs() -> None:
    one, other = (postgresql_conf.files(parameters) for parameters in ({"a": "1"}, {"a": "2"}))
    assert postgresql_conf.digest(one) == postgresql_conf.digest(dict(reversed(one.items())))
    assert postgresql_conf.digest(one) != postgresql_conf.digest(other)
