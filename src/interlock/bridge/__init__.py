"""The one bridge between callers without an event loop and the asynchronous implementation.

A `LoopThread` runs an event loop in a thread of its own: heartbeats go on there while the caller computes. Whatever
the implementation has to call back (a check, a step's effect) runs in the *caller's* thread, because things that users
hold are often bound to it: Django's connections, SQLite's, anything in a thread-local.
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
