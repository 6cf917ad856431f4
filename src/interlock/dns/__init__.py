"""Host names in DNS: a port, and a file for each way of publishing them.

A published name belongs to one owner, an id that the caller gives, and a record beside the name says so. Only requests
with the same owner change or withdraw the name; requests of other owners are refused, and so is a request for a name
with records that are not Interlock's. The name server decides this in the request that makes the change, never by a
query beforehand.

The package knows names, targets and owners, and none of the domains that publish them.
"""

from interlock.dns.port import Dns, Published
from interlock.dns.selection import NoDns, dns_from_url

__all__ = ["Dns", "NoDns", "Published", "dns_from_url"]
