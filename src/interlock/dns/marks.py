"""The records that Interlock writes: the target of a name, and the mark with the id of its owner."""

from collections.abc import Sequence
from ipaddress import ip_address

import dns.rdata
from dns.rdataclass import RdataClass
from dns.rdatatype import RdataType
from dns.rdtypes.ANY.TXT import TXT

from interlock.errors import InvalidName
from interlock.names import host_name

LABEL = "_interlock"
"""The first label of a mark's name, before the marked name.

The label conflicts with no host name, because host names have no underscore.
"""
KINDS = (RdataType.A, RdataType.AAAA, RdataType.CNAME)
"""The types of target records. Other records of a name are left alone."""

_OWNED_BY = b"heritage=interlock,owner="


def mark(owner: str) -> TXT:
    return TXT(RdataClass.IN, RdataType.TXT, [_OWNED_BY + owner.encode()])


def owner(found: Sequence[dns.rdata.Rdata]) -> str | None:
    """Returns the owner in the mark, or None. A name with two marks belongs to neither owner."""
    text = b"".join(found[0].strings) if len(found) == 1 and isinstance(found[0], TXT) else b""
    return text.removeprefix(_OWNED_BY).decode(errors="replace") if text.startswith(_OWNED_BY) else None


def target_record(target: str, name: str) -> dns.rdata.Rdata:
    """Returns the record for a target: an address record, or a CNAME for a host name. `name` is the published name."""
    try:
        address = ip_address(target)
    except ValueError:
        alias = host_name(target)
        if alias == name:
            raise InvalidName(f"{name} cannot lead to itself: name another host, or an address.", name=name) from None
        return dns.rdata.from_text(RdataClass.IN, RdataType.CNAME, f"{alias}.")
    if address.is_unspecified or address.is_multicast or "%" in target:
        raise InvalidName(
            f"{target!r} is not an address that clients can connect to: name another address.", name=target
        )
    kind = RdataType.A if address.version == 4 else RdataType.AAAA
    return dns.rdata.from_text(RdataClass.IN, kind, str(address))
