"""What a command found out, as JSON takes it and as a terminal may show it."""

import json
from datetime import datetime
from typing import Any


def plain(value: Any) -> Any:
    """For JSON: times as ISO 8601 has them."""
    match value:
        case datetime():
            return value.isoformat()
        case dict():
            return {name: plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case _:
            return value


def shown(text: str) -> str:
    """Text that others wrote: escapes in it are not to act on the terminal of whoever reads it."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def spoken(seconds: float) -> str:
    """How long, as a person would say it."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def moment(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S %Z}"
