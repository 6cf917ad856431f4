"""Seals a secret for its transfer from the server to one client, so that only the client can open it (HPKE, RFC 9180).

The client draws a key pair for one answer and sends the public half. So no answer, no proxy's log and no record has a
password in clear text. Sealing does not prove to the client that the server sealed it: TLS does.
"""

from typing import TYPE_CHECKING, Any

from interlock.errors import BadSpec, ConfigurationError

if TYPE_CHECKING:
    pass

_LENGTH = 32


def seal(secret: str, public_key: bytes, instance: str) -> bytes:
    """Returns `secret` sealed for the holder of the private key. Raises BadSpec if `public_key` is not valid."""
    suite = _suite()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    if len(public_key) != _LENGTH:
        raise BadSpec(
            f"A public key of X25519 has {_LENGTH} bytes, but this key has {len(public_key)}: send the whole key."
        )
    sealed: bytes
    try:
        sealed = suite.encrypt(secret.encode(), X25519PublicKey.from_public_bytes(public_key), info=_info(instance))
    except ValueError as error:  # a point with which every pair would agree on the same secret
        raise BadSpec("The public key is not a valid key of X25519: draw a new key pair.") from error
    return sealed


class Opener:
    """The client's key pair, used for one answer only."""

    def __init__(self) -> None:
        _suite()
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        self._private: X25519PrivateKey = X25519PrivateKey.generate()

    @property
    def public_key(self) -> bytes:
        return self._private.public_key().public_bytes_raw()

    def open(self, sealed: bytes, instance: str) -> str:
        """Returns the secret. Raises BadSpec if `sealed` is for another key or instance, or was changed."""
        from cryptography.exceptions import InvalidTag

        try:
            secret: bytes = _suite().decrypt(sealed, self._private, info=_info(instance))
        except (InvalidTag, ValueError) as error:
            raise BadSpec(
                "The answer was not sealed for this key pair, or was changed on its way: repeat the request."
            ) from error
        return secret.decode()


def _info(instance: str) -> bytes:
    return b"interlock instance credential v1 " + instance.encode()


def _suite() -> Any:
    try:
        from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
    except ImportError as error:
        raise ConfigurationError(
            "The package that seals passwords is missing or too old: pip install 'cryptography>=47'."
        ) from error
    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
