"""The role that owns an instance, and its database. They are made, or confirmed, by the superuser on the Unix socket.

The server is told what a password is checked with, and never the password: it may write statements into its log.
"""

import base64
import hashlib
import hmac
import secrets

from interlock.errors import BadSpec
from interlock.stores.postgres import Session
from interlock.stores.statements import statements

_SQL = statements("interlock.instances.drivers.local", "queries.sql")
_ITERATIONS = 4096
_LONGEST_NAME = 63
_TAKEN_NAMES = frozenset({"none", "postgres", "public", "template0", "template1"})


def new_password() -> str:
    return secrets.token_urlsafe(24)


def check_name(name: str) -> None:
    """Raises BadSpec for what cannot be both a role and a database."""
    if not name or len(name.encode()) > _LONGEST_NAME:
        raise BadSpec(f"{name!r} cannot be an instance's name: it needs 1 to {_LONGEST_NAME} bytes.")
    if name in _TAKEN_NAMES or name.startswith("pg_"):
        raise BadSpec(f"{name!r} is a name that PostgreSQL keeps for itself: choose another.")
    if any(ord(character) < 32 or ord(character) == 127 for character in name):
        raise BadSpec(f"{name!r} holds a control character: leave that out.")


async def make_owner(session: Session, name: str, password: str) -> None:
    """Make the role, or give it this password."""
    await session.execute(await session.fetchval(_SQL["make_owner"], name, _verifier(password)))


async def make_database(session: Session, name: str) -> None:
    """Make the owner's database unless it is there."""
    statement = await session.fetchval(_SQL["make_database"], name)
    if statement is not None:
        await session.execute(statement)


def _verifier(password: str) -> str:
    """What PostgreSQL keeps of a password (RFC 5803). Ours are plain ASCII, and need no SASLprep."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    salt_text, stored_text, server_text = (base64.b64encode(part).decode() for part in (salt, stored, server))
    return f"SCRAM-SHA-256${_ITERATIONS}:{salt_text}${stored_text}:{server_text}"
