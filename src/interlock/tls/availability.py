"""The optional package `cryptography`, which reads and makes certificates."""

from interlock.errors import TlsUnavailable


def has_cryptography() -> bool:
    try:
        import cryptography.x509  # noqa: F401
    except ImportError:
        return False
    return True


def need_cryptography() -> None:
    """Raises TlsUnavailable without the package."""
    if not has_cryptography():
        raise TlsUnavailable("TLS needs the package cryptography: pip install 'interlock[embedded]'.")
