"""An instance's owner and certificate: made once, kept in its Secret and nowhere else.

The owner is a role that owns the database of its own name. The superuser has no way in over the network.
"""

import base64
import hashlib
import hmac
import secrets

from interlock.embedded.tls import self_signed
from interlock.errors import BadSpec

SUPERUSER = "postgres"
PASSWORD = "password"  # noqa: S105 # what it is called in the Secret
NEXT = "next-password"  # the same, while it is being changed
CERTIFICATE = "tls.crt"
FIRST_START = "owner.sql"
PSQL = ("psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--username={SUPERUSER}")
"""Inside the pod, where no password is asked for; statements come on its standard input."""
_ITERATIONS = 4096
_LONGEST_NAME = 63
_TAKEN_NAMES = frozenset({"none", SUPERUSER, "public", "template0", "template1"})


def check_name(name: str) -> None:
    """Raises BadSpec for what cannot be both a role and a database."""
    if not name or len(name.encode()) > _LONGEST_NAME:
        raise BadSpec(f"{name!r} cannot be an instance's name: it needs 1 to {_LONGEST_NAME} bytes.")
    if name in _TAKEN_NAMES or name.startswith("pg_"):
        raise BadSpec(f"{name!r} is a name that PostgreSQL keeps for itself: choose another.")
    if any(ord(character) < 32 or ord(character) == 127 for character in name):
        raise BadSpec(f"{name!r} holds a control character: leave that out.")


def new_password() -> str:
    return secrets.token_urlsafe(24)


def contents(name: str, password: str, hosts: list[str]) -> dict[str, str]:
    """What the Secret holds; the image runs `owner.sql` once, when it has made the cluster."""
    certificate, key = self_signed(hosts)
    owner = f"CREATE ROLE {_identifier(name)} LOGIN;\n{new_password_statement(name, password)}\n"
    owner += f"CREATE DATABASE {_identifier(name)} OWNER {_identifier(name)};\n"
    return {
        PASSWORD: packed(password),
        FIRST_START: packed(owner),
        CERTIFICATE: _packed(certificate),
        "tls.key": _packed(key),
    }


def new_password_statement(name: str, password: str) -> str:
    """With what the server keeps of a password: it may write statements into its log."""
    return f"ALTER ROLE {_identifier(name)} PASSWORD '{_verifier(password)}';"


def packed(text: str) -> str:
    return _packed(text.encode())


def unpacked(value: str) -> str:
    return base64.b64decode(value).decode()


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _verifier(password: str) -> str:
    """RFC 5803. Ours are plain ASCII, and need no SASLprep."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    return f"SCRAM-SHA-256${_ITERATIONS}:{_packed(salt)}${_packed(stored)}:{_packed(server)}"


def _packed(value: bytes) -> str:
    return base64.b64encode(value).decode()
