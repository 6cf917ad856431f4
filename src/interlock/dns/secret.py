"""The secret of a TSIG key, read from the place that the URL names, and not kept.

The secret is read for each request. So a changed key takes effect at once, and no object holds the secret.
"""

import base64
import os
import re

from interlock.dns.address import Address
from interlock.errors import ConfigurationError

_IN_KEY_FILE = re.compile(r'\bsecret\s+"([^"]*)"')


def read(address: Address) -> bytes:
    """Read the secret. It is a key as tsig-keygen writes it, or Base64 text alone."""
    where = f"the file {address.secret_file}" if address.secret_file else f"the variable {address.secret_env}"
    secret = _decoded(address, where)
    if not secret:
        raise ConfigurationError(
            f"There is no TSIG secret in {where}: put it there as Base64, or as a key in the form of tsig-keygen."
        )
    return secret


def _decoded(address: Address, where: str) -> bytes:
    """Returns the secret; empty if the text is not Base64.

    An error raised here would show the text in its traceback.
    """
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
        raise ConfigurationError(f"The TSIG secret has to be in {where}, which is not set: set the variable.") from None
    except OSError as error:
        raise ConfigurationError(
            f"The TSIG secret in {where} cannot be read ({error.strerror}): correct that."
        ) from error
