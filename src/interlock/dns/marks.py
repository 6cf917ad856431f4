"""The records that are written: the target of a name, and the mark that names its owner."""

from collections.abc import Sequence
from ipaddress import ip_address

import dns.rdata
from dns.rdataclass import RdataClass
from dns.rdatatype import RdataType
from dns.rdtypes.ANY.TXT import TXT

from interlock.errors import InvalidName
from interlock.names import host_name

LABEL = "_interlock"
"""What the mark's name begins with; the rest is the name that is marked. No host name has an underscore in it."""
KINDS = (RdataType.A, RdataType.AAAA, RdataType.CNAME)
"""What a name may lead to. Whatever else somebody puts there is left alone."""

_OWNED_BY = b"heritage=interlock,owner="


def mark(owner: str) -> TXT:
    return TXT(RdataClass.IN, RdataType.TXT, [_OWNED_BY + owner.encode()])


def owner(found: Sequence[dns.rdata.Rdata]) -> str | None:
    """The owner that the mark names, if it is a mark, and the only one: a name with two belongs to neither."""
    text = b"".join(found[0].strings) if len(found) == 1 and isinstance(found[0], TXT) else b""
    return text.removeprefix(_OWNED_BY).decode(errors="replace") if text.startswith(_OWNED_BY) else None


def target_record(target: str, name: str) -> dns.rdata.Rdata:
    """An address record, or, for a host name, a CNAME. `name` is what it is for."""
    try:
        address = ip_address(target)
    except ValueError:
        alias = host_name(target)
        if alias == name:
            raise InvalidName(f"{name} cannot lead to itself: name another host, or an address.", name=name) from None
        return dns.rdata.from_text(RdataClass.IN, RdataType.CNAME, f"{alias}.")
    if address.is_unspecified or address.is_multicast or "%" in target:
        raise InvalidName(f"{target!r} is no address that others could connect to.", name=target)
    kind = RdataType.A if address.version == 4 else RdataType.AAAA
    return dns.rdata.from_text(RdataClass.IN, kind, str(address))
