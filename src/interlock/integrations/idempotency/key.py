"""What may stand in an Idempotency-Key header."""

import re
from collections.abc import Sequence

_LONGEST = 255
# A string as RFC 8941 writes it, with parameters that mean nothing to us, or the same without quotes: most clients
# send it so.
_QUOTED = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])+)"(?: *;[ -~]*)?')
_BARE = re.compile(r"[!#-+\--:<-\[\]-~]+")


class MalformedKey(ValueError):
    pass


def read_key(values: Sequence[str]) -> str | None:
    """The key in the values of all such headers; None: there is none. Quotes are no part of it."""
    if not values:
        return None
    if len(values) > 1:
        raise MalformedKey("There are several Idempotency-Key headers: send one.")
    value = values[0].strip(" \t")
    if quoted := _QUOTED.fullmatch(value):
        key = re.sub(r"\\(.)", r"\1", quoted[1])
    elif _BARE.fullmatch(value):
        key = value
    else:
        raise MalformedKey(
            'The Idempotency-Key is malformed: send a string such as "8e03978e-40d5-43dd-bc93-6894a57f".'
        )
    if len(key) > _LONGEST:
        raise MalformedKey(f"The Idempotency-Key has {len(key)} characters: use {_LONGEST} at most.")
    return key
