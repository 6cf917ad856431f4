"""The API server's refusals, with its own messages."""

from typing import Any


class Refused(Exception):
    def __init__(self, code: int, reason: str | None, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "code": code,
        }
        if reason is not None:
            self.body |= {"reason": reason, "details": details}


def not_found(plural: str, name: str, group: str = "") -> Refused:
    return Refused(404, "NotFound", f'{_qualified(plural, group)} "{name}" not found', name=name, kind=plural)


def exists(plural: str, name: str, group: str = "") -> Refused:
    return Refused(409, "AlreadyExists", f'{_qualified(plural, group)} "{name}" already exists', name=name, kind=plural)


def conflict(plural: str, name: str, why: str, group: str = "") -> Refused:
    message = f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}'
    return Refused(409, "Conflict", message, name=name, kind=plural)


def invalid(kind: str, name: str, *causes: str, group: str = "") -> Refused:
    """`causes` are "field: what is wrong"."""
    said = causes[0] if len(causes) == 1 else "[" + ", ".join(causes) + "]"
    return Refused(422, "Invalid", f'{_qualified(kind, group)} "{name}" is invalid: {said}', name=name, kind=kind)


def forbidden(plural: str, name: str, why: str) -> Refused:
    return Refused(403, "Forbidden", f'{plural} "{name}" is forbidden: {why}', name=name, kind=plural)


def bad_request(message: str) -> Refused:
    return Refused(400, "BadRequest", message)


def _qualified(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural
