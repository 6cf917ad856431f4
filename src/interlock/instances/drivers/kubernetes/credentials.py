"""An instance's password and certificate: made once, kept in its Secret and nowhere else."""

import base64
import hashlib
import hmac
import secrets

from interlock.embedded.tls import self_signed

USER = "postgres"
DATABASE = "postgres"
_ITERATIONS = 4096


def new_password() -> str:
    return secrets.token_urlsafe(24)


def contents(password: str, hosts: list[str]) -> dict[str, str]:
    """What the Secret holds."""
    certificate, key = self_signed(*hosts)
    return {"password": _packed(password.encode()), "tls.crt": _packed(certificate), "tls.key": _packed(key)}


def packed(text: str) -> str:
    return _packed(text.encode())


def unpacked(value: str) -> str:
    return base64.b64decode(value).decode()


def verifier(password: str) -> str:
    """What PostgreSQL keeps of a password. A statement with this can be logged: nobody logs in with it."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server = hmac.digest(salted, b"Server Key", "sha256")
    return f"SCRAM-SHA-256${_ITERATIONS}:{_packed(salt)}${_packed(stored)}:{_packed(server)}"


def _packed(value: bytes) -> str:
    return base64.b64encode(value).decode()
