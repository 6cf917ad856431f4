"""Checks the SCRAM verifier that is sent to a server instead of a password (RFC 5803)."""

import base64
import hashlib
import hmac
import re


def verifies(statement: str, password: str) -> bool:
    """True if the verifier in the statement is that of the password."""
    found = re.search(r"SCRAM-SHA-256\$(\d+):([^$]+)\$([^:]+):", statement)
    assert found is not None
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(found[2]), int(found[1]))
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    return stored == base64.b64decode(found[3])
