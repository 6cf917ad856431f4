"""A key: 256 random bits, behind a mark by which people and scanners for leaked secrets know what it is."""

import hashlib
import re
import secrets

_MARK = "ilk_"
_SHAPE = re.compile(_MARK + r"[A-Za-z0-9_-]{43}")


def new_key() -> str:
    return _MARK + secrets.token_urlsafe(32)


def is_key(text: str) -> bool:
    """Whether it could be one."""
    return bool(_SHAPE.fullmatch(text))


def digest(key: str) -> bytes:
    """All that is kept of it; see 0009_keys for why that is enough."""
    return hashlib.sha256(key.encode()).digest()
