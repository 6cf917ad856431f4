"""The secret of a TSIG key: read from where the URL says, and kept nowhere.

It is read for each request, so a key that was changed counts at once, and there is no object that could show it.
"""

import base64
import os
import re

from interlock.dns.address import Address
from interlock.errors import ConfigurationError

_IN_KEY_FILE = re.compile(r'\bsecret\s+"([^"]*)"')


def read(address: Address) -> bytes:
    """It may stand there as tsig-keygen writes it, or as the Base64 text alone."""
    where = f"the file {address.secret_file}" if address.secret_file else f"the variable {address.secret_env}"
    secret = _decoded(address, where)
    if not secret:
        raise ConfigurationError(
            f"What is in {where} is no TSIG secret: it has to be Base64, or a key as tsig-keygen writes it."
        )
    return secret


def _decoded(address: Address, where: str) -> bytes:
    """Nothing, if it is no Base64. It is not raised here, where the text would be part of the traceback."""
    text = _text(address, where)
    if in_file := _IN_KEY_FILE.search(text):
        text = in_file[1]
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        return b""


def _text(address: Address, where: str) -> str:
    try:
        if address.secret_file:
            return address.secret_file.read_text(encoding="ascii", errors="replace")
        return os.environ[address.secret_env or ""]
    except KeyError:
        raise ConfigurationError(f"The TSIG secret is to be in {where}, which is not set: set it.") from None
    except OSError as error:
        raise ConfigurationError(f"The TSIG secret in {where} cannot be read: {error.strerror}.") from error
