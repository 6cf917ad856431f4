"""In which zone a name is, as the server that is asked sees it."""

import dns.message
import dns.name
from dns.flags import Flag
from dns.rcode import Rcode
from dns.rdatatype import RdataType

from interlock.dns.exchange import Exchange
from interlock.errors import DnsZoneUnknown


async def zone_of(name: dns.name.Name, text: str, exchange: Exchange) -> dns.name.Name:
    """Only a server that is an authority for the name itself counts: one for a zone above it may have delegated it."""
    candidate = name
    while candidate != dns.name.root:
        answer = await exchange.ask(dns.message.make_query(candidate, RdataType.SOA, flags=0), text)
        if not answer.flags & Flag.AA or answer.rcode() not in (Rcode.NOERROR, Rcode.NXDOMAIN):
            break
        for records in (*answer.answer, *answer.authority):
            if records.rdtype == RdataType.SOA and name.is_subdomain(records.name):
                return records.name
        candidate = candidate.parent()  # it leads elsewhere (CNAME), so the zone's own record was not told
    raise DnsZoneUnknown(
        f"The name server {exchange.server} has no zone that {text} would be in: name the right server, or a name "
        "in one of its zones.",
        name=text,
    )
