"""Keeps the replicas of a service out of each other's way, on the database they already have."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.errors import InterlockError
    from interlock.gate import AsyncGate, AsyncPassage, Gate, Passage, Timing, Verdict

__all__ = ["AsyncGate", "AsyncPassage", "Gate", "InterlockError", "Passage", "Timing", "Verdict"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Imported when first used: the command line starts without the driver."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "interlock.errors" if name == "InterlockError" else "interlock.gate"
    return getattr(import_module(home), name)
