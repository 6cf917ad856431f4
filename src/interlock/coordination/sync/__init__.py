"""The API for callers without an event loop: the same objects with blocking methods, which run on a loop thread."""
