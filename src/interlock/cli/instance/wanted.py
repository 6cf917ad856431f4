"""Files that say which instances are wanted: a list in JSON, or tables ``[[instances]]`` in TOML."""

import json
from pathlib import Path
from typing import Any

from interlock.errors import ConfigurationError


def wanted_in(path: Path) -> list[dict[str, Any]]:
    """As the API takes them; what is wrong with each is for the server to say."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        found = _toml(text) if path.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise ConfigurationError(f"The file {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise ConfigurationError(f"The file {path} is not {kind}: {error}.") from error
    listed = found.get("instances") if isinstance(found, dict) else found
    if not isinstance(listed, list) or not listed or not all(isinstance(one, dict) and "name" in one for one in listed):
        raise ConfigurationError(
            f"The file {path} names no instances: write a list of objects with a name in JSON, "
            "or [[instances]] tables in TOML."
        )
    try:
        json.dumps(listed)
    except TypeError as error:  # TOML knows dates and times, and no instance has one
        raise ConfigurationError(f"The file {path} holds a date or a time: put it into quotes.") from error
    return listed


def _toml(text: str) -> Any:
    import tomllib

    return tomllib.loads(text)
