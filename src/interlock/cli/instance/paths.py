"""Where the API has an instance, and a backup."""

from urllib.parse import quote


def path_of(name: str, *more: str) -> str:
    """`name` is what somebody typed: one part of the path, whatever is in it."""
    return "/".join(["/instances", quote(name, safe=""), *more])


def backup_path(id: str, *more: str) -> str:  # noqa: A002
    return "/".join(["/backups", quote(id, safe=""), *more])
