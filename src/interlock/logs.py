"""Structured logging: configured by entry points (command line, server) and never by the library.

Library code writes ``log.info("gate.acquired", extra={"gate": name})``: the event is a constant, the facts are fields.
An application that imports the library formats these records as it formats its own records. The message of a record
contains the facts too, for formatters that print only the message. The formatters in this module print the event and
the facts separately.
"""

import json
import logging
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

LogFormat = Literal["text", "json"]

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "event"}


class EventLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose messages are events: `record.event` is the constant, and each fact is a field of the record."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[str, MutableMapping[str, Any]]:
        facts = kwargs.get("extra") or {}
        kwargs["extra"] = {**facts, "event": msg}
        return " ".join([msg, *(f"{name}={_plain(value)}" for name, value in facts.items())]), kwargs


def events(name: str) -> EventLogger:
    return EventLogger(logging.getLogger(name))


def event_of(record: logging.LogRecord) -> str:
    """Returns the event of a record from Interlock, or the message of any other record."""
    event: str | None = getattr(record, "event", None)
    return event or record.getMessage()


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Returns the facts that the caller passed as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD and not name.startswith("_")}


class TextFormatter(logging.Formatter):
    """Writes a record as a line such as ``12:30:01 info  gate.acquired  gate=shop fence=3``."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        facts = " ".join(f"{name}={_plain(value)}" for name, value in fields_of(record).items())
        line = f"{time} {record.levelname.lower():<7} {event_of(record)}"
        line = f"{line}  {facts}" if facts else line
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """Writes a record as a line with one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": event_of(record),
            "logger": record.name,
            **fields_of(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def _plain(value: Any) -> str:
    text = str(value)
    return text if text.isprintable() and text and not set(text) & {" ", '"'} else json.dumps(text)


def set_up(log_format: LogFormat = "text", level: str = "info", stream: TextIO | None = None) -> None:
    """Send Interlock's log to `stream`, by default standard error. Only entry points may call this."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logger = logging.getLogger("interlock")
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
