"""The surface for callers without an event loop: the same objects, on a loop thread."""
