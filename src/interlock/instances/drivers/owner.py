"""The role that owns an instance: valid names and new passwords, the same for every driver."""

import base64
import hashlib
import hmac
import secrets

from interlock.errors import BadSpec

_ITERATIONS = 4096
_LONGEST_NAME = 63
_TAKEN_NAMES = frozenset({"none", "postgres", "public", "template0", "template1"})


def check_name(name: str) -> None:
    """An instance's name is also the name of its role and of its database.

    Raises BadSpec if PostgreSQL does not allow the name for both.
    """
    if not name or len(name.encode()) > _LONGEST_NAME:
        raise BadSpec(f"{name!r} cannot be an instance's name: use 1 to {_LONGEST_NAME} bytes.")
    if name in _TAKEN_NAMES or name.startswith("pg_"):
        raise BadSpec(f"{name!r} is reserved by PostgreSQL: choose another name.")
    if any(ord(character) < 32 or ord(character) == 127 for character in name):
        raise BadSpec(f"{name!r} contains a control character: remove it.")


def new_password() -> str:
    return secrets.token_urlsafe(24)


def verifier(password: str) -> str:
    """Returns the verifier of a password, which PostgreSQL stores (RFC 5803).

    New passwords are ASCII and need no SASLprep.
    """
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt_text, stored_text, server_text = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256${_ITERATIONS}:{salt_text}${stored_text}:{server_text}"
