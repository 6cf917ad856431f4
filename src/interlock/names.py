"""The names that can be claimed and published, and their one spelling: two spellings must not be two names.

Names of hosts are written as DNS compares them: in lower case, without a dot at the end, and with letters beyond ASCII
as IDNA 2008 has them (`xn--…`). Python's own codec follows the rules of 2003, by which some of today's names are
others', so the package `idna` is asked; names in plain ASCII do without it.
"""

import re

from interlock.errors import ConfigurationError, InvalidName

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LONGEST_HOST = 253
_LONGEST = 255
_ENCODED = "xn--"
_DOTS = re.compile("[.\u3002\uff0e\uff61]")


def plain_name(name: str) -> str:
    """Any text, as it is given."""
    if not isinstance(name, str) or not name.isprintable():
        raise InvalidName(f"{name!r} is no name: give some text without control characters.", name=str(name))
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise InvalidName("A name has to be text that can be written in UTF-8.", name=ascii(name)) from error
    if size == 0:
        raise InvalidName("The name is empty: give some text.", name=name)
    if size > _LONGEST:
        raise InvalidName(f"{name[:20]!r}… has {size} bytes: use {_LONGEST} at most.", name=name)
    return name


def dns_label(name: str) -> str:
    """One part of a host name (RFC 1123): ``MyDB`` is ``mydb``, ``bücher`` is ``xn--bcher-kva``."""
    label = _ascii(plain_name(name), name)
    if "." in label:
        raise InvalidName(f"{name!r} has dots in it, and is to be one part of a host name: leave them out.", name=name)
    return _checked(label, name)


def host_name(name: str) -> str:
    """A whole host name: ``MyDB.Example.com.`` is ``mydb.example.com``. No address is one."""
    whole = ".".join(_ascii(part, name) for part in _DOTS.split(plain_name(name)))
    whole = whole.removesuffix(".")
    for label in whole.split("."):
        _checked(label, name)
    if len(whole) > _LONGEST_HOST:
        raise InvalidName(f"{name[:20]!r}… has {len(whole)} characters: DNS allows {_LONGEST_HOST}.", name=name)
    if whole.rpartition(".")[2].isdigit():
        raise InvalidName(f"{name!r} ends like an address, not like the name of a host.", name=name)
    return whole


def _ascii(label: str, name: str) -> str:
    if label.isascii() and not label.lower().startswith(_ENCODED):
        return label.lower()
    try:
        import idna
    except ImportError as error:
        raise ConfigurationError(
            f"{name!r} has letters beyond ASCII, for which a package is needed: pip install 'interlock[idna]'."
        ) from error
    try:
        return idna.encode(label, uts46=True, std3_rules=True).decode()
    except idna.IDNAError as error:
        raise InvalidName(f"{name!r} is no name of a host: {error}.", name=name) from error


def _checked(label: str, name: str) -> str:
    if not _LABEL.fullmatch(label):
        raise InvalidName(
            f"{name!r} is no name of a host: each part has 1 to 63 letters, digits and hyphens, "
            "and no hyphen at its ends.",
            name=name,
        )
    if label[2:4] == "--" and not label.startswith(_ENCODED):
        raise InvalidName(f"{name!r} has hyphens where only encoded names have them (RFC 5891).", name=name)
    return label
