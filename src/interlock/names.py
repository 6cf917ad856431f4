"""The canonical spelling of names that can be claimed and published: two spellings of a name must not be two names.

Host names are written as DNS compares them: in lower case, without a final dot, and with letters beyond ASCII encoded
by IDNA 2008 (`xn--…`). Python's own codec follows the rules of 2003, which encode some of today's names differently, so
the package `idna` is used; names in plain ASCII do not need it.
"""

import re

from interlock.errors import ConfigurationError, InvalidName

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LONGEST_HOST = 253
_LONGEST = 255
_ENCODED = "xn--"
_DOTS = re.compile("[.\u3002\uff0e\uff61]")


def plain_name(name: str) -> str:
    """Returns `name` unchanged. Raises InvalidName if it is empty, too long, not printable, or not UTF-8."""
    if not isinstance(name, str) or not name.isprintable():
        raise InvalidName(f"{name!r} cannot be a name: use text without control characters.", name=str(name))
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise InvalidName("A name has to be text that can be written in UTF-8.", name=ascii(name)) from error
    if size == 0:
        raise InvalidName("The name is empty: use some text.", name=name)
    if size > _LONGEST:
        raise InvalidName(f"{name[:20]!r}… has {size} bytes: use {_LONGEST} at most.", name=name)
    return name


def dns_label(name: str) -> str:
    """Returns the canonical spelling of one part of a host name: ``mydb`` for ``MyDB`` (RFC 1123).

    ``bücher`` becomes ``xn--bcher-kva``.
    """
    label = _ascii(plain_name(name), name)
    if "." in label:
        raise InvalidName(f"{name!r} has dots, but has to be one part of a host name: leave the dots out.", name=name)
    return _checked(label, name)


def host_name(name: str) -> str:
    """Returns the canonical spelling of a whole host name: ``mydb.example.com`` for ``MyDB.Example.com.``.

    Raises InvalidName for an IP address.
    """
    whole = ".".join(_ascii(part, name) for part in _DOTS.split(plain_name(name)))
    whole = whole.removesuffix(".")
    for label in whole.split("."):
        _checked(label, name)
    if len(whole) > _LONGEST_HOST:
        raise InvalidName(f"{name[:20]!r}… has {len(whole)} characters: DNS allows {_LONGEST_HOST} at most.", name=name)
    if whole.rpartition(".")[2].isdigit():
        raise InvalidName(f"{name!r} ends like an IP address: use a host name.", name=name)
    return whole


def _ascii(label: str, name: str) -> str:
    if label.isascii() and not label.lower().startswith(_ENCODED):
        return label.lower()
    try:
        import idna
    except ImportError as error:
        raise ConfigurationError(
            f"{name!r} has letters beyond ASCII, which need a package: pip install 'interlock[idna]'."
        ) from error
    try:
        return idna.encode(label, uts46=True, std3_rules=True).decode()
    except idna.IDNAError as error:
        raise InvalidName(f"{name!r} is not a valid host name: {error}.", name=name) from error


def _checked(label: str, name: str) -> str:
    if not _LABEL.fullmatch(label):
        raise InvalidName(
            f"{name!r} is not a valid host name: each part needs 1 to 63 letters, digits and hyphens, "
            "and no hyphen at its ends.",
            name=name,
        )
    if label[2:4] == "--" and not label.startswith(_ENCODED):
        raise InvalidName(
            f"A part of {name!r} has hyphens as its third and fourth characters, which only encoded names may have "
            "(RFC 5891): use another name.",
            name=name,
        )
    return label
