"""Where the API has an instance."""

from urllib.parse import quote


def path_of(name: str, *more: str) -> str:
    """`name` is what somebody typed: one part of the path, whatever is in it."""
    return "/".join(["/instances", quote(name, safe=""), *more])
