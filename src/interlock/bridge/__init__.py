"""The bridge between callers without an event loop and the asynchronous implementation.

A `LoopThread` runs an event loop in a thread of its own: renewals continue on it while the caller computes. A callback
of the implementation (a check, a step's effect) runs in the *caller's* thread, because users' objects are often bound
to that thread: connections of Django and SQLite, and anything in a thread-local.
"""

from interlock.bridge.calls import Request, completed
from interlock.bridge.jobs import RunBlocking, in_caller, in_thread
from interlock.bridge.loop_thread import LoopThread, in_caller_until_done

__all__ = [
    "LoopThread",
    "Request",
    "RunBlocking",
    "completed",
    "in_caller",
    "in_caller_until_done",
    "in_thread",
]
