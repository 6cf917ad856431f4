"""A sealed secret can only be opened with the private key that it was sealed for."""

import pytest

from interlock.errors import BadSpec
from interlock.sealing import Opener, seal


def test_the_key_pairs_owner_opens_it() -> None:
    opener = Opener()
    sealed = seal("geheim", opener.public_key, "an instance")
    assert b"geheim" not in sealed
    assert opener.open(sealed, "an instance") == "geheim"
    assert seal("geheim", opener.public_key, "an instance") != sealed


@pytest.mark.parametrize("how", ["another", "another instance", "changed", "cut", "nothing"])
def test_another_key_cannot_open_it(how: str) -> None:
    opener = Opener()
    sealed = seal("geheim", opener.public_key, "an instance")
    changed = {"changed": sealed[:-1] + bytes([sealed[-1] ^ 1]), "cut": sealed[:20], "nothing": b""}.get(how, sealed)
    with pytest.raises(BadSpec, match="not sealed for this key pair"):
        (Opener() if how == "another" else opener).open(changed, how if how == "another instance" else "an instance")


@pytest.mark.parametrize("key", [b"", b"x" * 31, b"x" * 33, bytes(32)])
def test_an_invalid_public_key_is_refused(key: bytes) -> None:
    with pytest.raises(BadSpec, match="public key"):
        seal("geheim", key, "an instance")
