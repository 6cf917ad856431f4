"""The formats of the log, and that only entry points configure logging."""

import ast
import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlock
from interlock import logs
from interlock.logs import JsonFormatter, TextFormatter

SOURCE = Path(interlock.__file__).parent

LOAD_EVERYTHING = """
import importlib, logging, pkgutil
import interlock
for module in pkgutil.walk_packages(interlock.__path__, "interlock."):
    importlib.import_module(module.name)
loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith("interlock")]
assert len(loggers) > 5, loggers
for logger in [logging.root, *loggers]:
    assert not logger.handlers, logger
for logger in loggers:
    assert logger.level == logging.NOTSET and logger.propagate, logger
"""


def record(event: str, *, exception: BaseException | None = None, **fields: Any) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "interlock.gate.gate", "levelname": "INFO", "msg": event, **fields})
    if exception:
        made.exc_info = (type(exception), exception, exception.__traceback__)
    return made


def as_text(**fields: Any) -> str:
    line = TextFormatter().format(record("gate.acquired", **fields))
    stamp, rest = line[:8], line[9:]
    assert re.fullmatch(r"\d\d:\d\d:\d\d", stamp)
    return rest


def caught() -> ValueError:
    try:
        raise ValueError("no such step")
    except ValueError as error:
        return error


@pytest.fixture
def own_logger() -> Iterator[logging.Logger]:
    """The logger that `set_up` changes, restored after the test."""
    logger = logging.getLogger("interlock")
    before = logger.handlers[:], logger.level, logger.propagate
    yield logger
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def test_text_is_time_level_event_and_facts() -> None:
    assert as_text(gate="db/public/shop", fence=3) == "info    gate.acquired  gate=db/public/shop fence=3"


def test_text_without_facts_ends_with_the_event() -> None:
    assert as_text() == "info    gate.acquired"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("two words", '"two words"'),
        ("", '""'),
        ('a"b', r'"a\"b"'),
        ("a\nforged: line", r'"a\nforged: line"'),
        ("\x1b[2J", r'"\u001b[2J"'),
        (None, "None"),
    ],
)
def test_a_value_that_could_be_misread_is_quoted(value: object, shown: str) -> None:
    assert as_text(step=value) == f"info    gate.acquired  step={shown}"


def test_text_shows_an_exception_below_its_line() -> None:
    first, *below = as_text(exception=caught()).splitlines()
    assert first == "info    gate.acquired"
    assert below[0].startswith("Traceback")
    assert below[-1] == "ValueError: no such step"


def test_json_is_one_object_a_line() -> None:
    line = JsonFormatter().format(record("gate.acquired", gate="two\nlines", fence=3, place=Path("/tmp")))
    assert "\n" not in line
    entry = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", entry.pop("time"))
    assert entry == {
        "level": "info",
        "event": "gate.acquired",
        "logger": "interlock.gate.gate",
        "gate": "two\nlines",
        "fence": 3,
        "place": "/tmp",
    }


def test_json_holds_an_exception_as_a_field() -> None:
    entry = json.loads(JsonFormatter().format(record("gate.lost", exception=caught())))
    assert entry["exception"].startswith("Traceback")
    assert entry["exception"].endswith("ValueError: no such step")


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_an_entry_point_gets_the_log_on_its_stream(own_logger: logging.Logger, log_format: logs.LogFormat) -> None:
    stream = io.StringIO()
    logs.set_up(log_format, "warning", stream)
    logging.getLogger("interlock.gate").info("gate.waiting")
    logging.getLogger("interlock.gate").warning("gate.lost", extra={"fence": 3})
    assert len(stream.getvalue().splitlines()) == 1
    assert "gate.lost" in stream.getvalue()
    assert not own_logger.propagate


def test_setting_up_twice_does_not_log_every_record_twice(own_logger: logging.Logger) -> None:
    streams = io.StringIO(), io.StringIO()
    for stream in streams:
        logs.set_up(stream=stream)
    own_logger.info("gate.left")
    assert [stream.getvalue().count("gate.left") for stream in streams] == [0, 1]


def test_importing_the_library_sets_up_no_logging() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", LOAD_EVERYTHING], check=True)


def callers_of(*names: str) -> set[str]:
    found = set()
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
                called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                if called in names:
                    found.add(file.relative_to(SOURCE).as_posix())
    return found


def test_only_the_command_line_sets_up_logging() -> None:
    assert callers_of("set_up") == {"cli/settings.py"}
    assert callers_of("basicConfig", "dictConfig", "fileConfig", "addHandler", "StreamHandler") == {"logs.py"}
