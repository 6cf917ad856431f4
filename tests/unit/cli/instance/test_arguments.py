"""Arguments and files of instances are read as they are meant, or refused."""

from pathlib import Path

import click
import pytest

from interlock.cli.instance.bulk import wanted_in
from interlock.cli.record.api import path_of
from interlock.cli.record.options import as_mapping, pair
from interlock.errors import ConfigurationError


def test_a_name_is_one_segment_of_a_path() -> None:
    assert path_of("/instances", "a..b?c#d", "logs") == "/instances/a..b%3Fc%23d/logs"


def test_a_value_may_have_any_characters() -> None:
    assert pair("search_path=a=b, c ") == ("search_path", "a=b, c ")
    assert pair("work_mem=") == ("work_mem", "")


@pytest.mark.parametrize("given", ["work_mem", "=8MB", " =8MB", ""])
def test_an_invalid_pair_is_refused(given: str) -> None:
    with pytest.raises(click.BadParameter, match="NAME=VALUE"):
        pair(given)


def test_a_name_that_is_given_twice_is_refused() -> None:
    assert as_mapping([("a", "1"), ("b", "2")], "tag") == {"a": "1", "b": "2"}
    with pytest.raises(click.UsageError, match="twice"):
        as_mapping([("a", "1"), ("a", "2")], "tag")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("wanted.json", '[{"name": "a", "tags": {"x": "y"}}, {"name": "b"}]'),
        ("wanted.json", '{"instances": [{"name": "a", "tags": {"x": "y"}}, {"name": "b"}]}'),
        ("wanted.toml", '[[instances]]\nname = "a"\ntags = {x = "y"}\n[[instances]]\nname = "b"\n'),
    ],
)
def test_files_of_instances(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert wanted_in(tmp_path / name) == [{"name": "a", "tags": {"x": "y"}}, {"name": "b"}]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("wanted.json", "[", "is not valid JSON"),
        ("wanted.toml", "[", "is not valid TOML"),
        ("wanted.json", "[]", "names no instances"),
        ("wanted.json", '["a"]', "names no instances"),
        ("wanted.toml", 'name = "a"', "names no instances"),
        ("wanted.toml", '[[instances]]\nname = "a"\ntags = {since = 2031-01-01}', "put it into quotes"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        wanted_in(tmp_path / name)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be read \(No such file"):
        wanted_in(tmp_path / "wanted.json")
