"""Dynamic updates of a zone (RFC 2136), signed (TSIG, RFC 8945).

Each published name has a mark, a TXT record at ``_interlock.NAME`` with the id of its owner. (It is not at the name
itself, because a CNAME allows no other records there.) Name and mark are written in one message, which the server
applies as a whole or not at all. So a crash leaves nothing half written.

Each message carries its condition as prerequisites, which the server checks in the same step. A new name requires that
neither name nor mark exist; a change requires that the mark is the owner's and the only one. Of several concurrent
messages, one creates the name, and the others get the answer that it exists. These then try to change the name, and are
refused if the name has another mark. A lost answer does no harm: a repeated request finds its own mark.
"""

from dataclasses import dataclass

import dns.exception
import dns.message
import dns.name
import dns.rdata
import dns.update
from dns.flags import Flag
from dns.rcode import Rcode
from dns.rdatatype import RdataType
from dns.rdtypes.ANY.TXT import TXT

from interlock.dns import marks
from interlock.dns.address import Address
from interlock.dns.exchange import Exchange
from interlock.dns.port import Published
from interlock.errors import DnsForeign, DnsZoneUnknown, InvalidName
from interlock.logs import events
from interlock.names import host_name

log = events(__name__)

_TRIES = 3


@dataclass(frozen=True, slots=True)
class _Entry:
    text: str
    name: dns.name.Name
    mark: dns.name.Name
    zone: dns.name.Name

    def message(self) -> dns.update.UpdateMessage:
        return dns.update.UpdateMessage(self.zone)


class Rfc2136:
    """Publishes names by dynamic updates. Each request opens and closes its own connection."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._exchange = Exchange(address)

    def __repr__(self) -> str:
        return f"Rfc2136({str(self._address)!r}, zone={self._address.zone!r})"

    def full_name(self, name: str) -> str:
        """Returns the name written in full: the zone in the URL is appended to a name without dots."""
        whole, zone = host_name(name), self._address.zone
        if zone and "." not in whole:
            whole = host_name(f"{whole}.{zone}")
        if zone and not whole.endswith(f".{zone}"):
            raise InvalidName(f"{name!r} is not in the zone {zone}: use a name that ends with .{zone}.", name=name)
        _dns_name(f"{marks.LABEL}.{whole}")
        return whole

    async def check(self, name: str, owner: str) -> None:
        await self._create_or_update(await self._entry(name), owner, None)

    async def publish(self, name: str, target: str, owner: str) -> None:
        entry = await self._entry(name)
        is_new = await self._create_or_update(entry, owner, marks.target_record(target, entry.text))
        log.info("dns.published", extra={"host": entry.text, "target": target, "owner": owner, "is_new": is_new})

    async def withdraw(self, name: str, owner: str) -> None:
        entry = await self._entry(name)
        message = entry.message()
        message.present(entry.mark, marks.mark(owner))
        _remove(message, entry)
        was_there = await self._exchange.update(message, entry.text)
        log.info("dns.withdrawn", extra={"host": entry.text, "owner": owner, "was_there": was_there})

    async def lookup(self, name: str) -> Published:
        return await self._lookup(await self._entry(name))

    async def _create_or_update(self, entry: _Entry, owner: str, record: dns.rdata.Rdata | None) -> bool:
        """Create or update the name.

        Returns True if the name was free. Without `record`, only check, and change nothing.
        """
        mark = marks.mark(owner)
        for _ in range(_TRIES):
            if await self._create(entry, mark, record):
                return True
            if await self._update(entry, mark, record):
                return False
            seen = await self._lookup(entry)
            is_ours_or_free = seen in (Published(), Published(owner, seen.targets))
            if not is_ours_or_free:  # otherwise it has changed since the refusal: try again
                break
        raise _foreign(entry, seen)

    async def _create(self, entry: _Entry, mark: TXT, record: dns.rdata.Rdata | None) -> bool:
        message = entry.message()
        message.absent(entry.name)
        message.absent(entry.mark)
        if record:
            message.add(entry.mark, self._address.ttl, mark)
            message.add(entry.name, self._address.ttl, record)
        else:  # removing nothing checks that the key may change this name
            _remove(message, entry)
        return await self._exchange.update(message, entry.text)

    async def _update(self, entry: _Entry, mark: TXT, record: dns.rdata.Rdata | None) -> bool:
        message = entry.message()
        message.present(entry.mark, mark)
        if record:
            for kind in marks.KINDS:
                message.delete(entry.name, kind)
            message.add(entry.name, self._address.ttl, record)
        is_ours = await self._exchange.update(message, entry.text)
        if is_ours and record and record.rdtype == RdataType.CNAME:
            await self._confirm_alias(entry, record)
        return is_ours

    async def _confirm_alias(self, entry: _Entry, record: dns.rdata.Rdata) -> None:
        """Check that the server has added a CNAME: it silently ignores one at a name with other records.

        See RFC 2136, 3.4.2.2.
        """
        message = entry.message()
        message.present(entry.name, record)
        if not await self._exchange.update(message, entry.text):
            raise DnsForeign(
                f"{entry.text} has other records, and a name that is an alias (CNAME) must not have any: remove the "
                "other records, or publish an address instead.",
                name=entry.text,
                owner=None,
            )

    async def _lookup(self, entry: _Entry) -> Published:
        found = [record for kind in marks.KINDS for record in await self._records(entry.name, kind, entry)]
        targets = dict.fromkeys(record.to_text().removesuffix(".") for record in found)
        return Published(marks.owner(await self._records(entry.mark, RdataType.TXT, entry)), tuple(targets))

    async def _records(self, name: dns.name.Name, kind: RdataType, entry: _Entry) -> list[dns.rdata.Rdata]:
        """Returns the records at the name itself, of that type or CNAME."""
        answer = await self._exchange.query(dns.message.make_query(name, kind, flags=0), entry.text)
        return [record for records in answer.answer if records.name == name for record in records]

    async def _entry(self, name: str) -> _Entry:
        whole, given = self.full_name(name), self._address.zone
        absolute = _dns_name(whole)
        zone = _dns_name(given) if given else await _zone_of(absolute, whole, self._exchange)
        return _Entry(whole, absolute, _dns_name(f"{marks.LABEL}.{whole}"), zone)


def _dns_name(name: str) -> dns.name.Name:
    try:
        return dns.name.from_text(name)
    except dns.exception.DNSException:
        raise InvalidName(f"{name[:20]!r}… is too long for DNS: use a shorter name.", name=name) from None


def _remove(message: dns.update.UpdateMessage, entry: _Entry) -> None:
    for kind in marks.KINDS:
        message.delete(entry.name, kind)
    message.delete(entry.mark, RdataType.TXT)


def _foreign(entry: _Entry, seen: Published) -> DnsForeign:
    if seen.owner:
        why = f"is published for {seen.owner}: use another name, or delete {seen.owner} first"
    else:
        why = "has records that are not Interlock's: use another name, or remove those records if they are not needed"
    return DnsForeign(f"{entry.text} {why}.", name=entry.text, owner=seen.owner)


async def _zone_of(name: dns.name.Name, text: str, exchange: Exchange) -> dns.name.Name:
    """Query the server for the zone of a name.

    The server has to be authoritative for the name itself, because the server of a parent zone may have delegated the
    name.
    """
    candidate = name
    while candidate != dns.name.root:
        answer = await exchange.send(dns.message.make_query(candidate, RdataType.SOA, flags=0), text)
        if not answer.flags & Flag.AA or answer.rcode() not in (Rcode.NOERROR, Rcode.NXDOMAIN):
            break
        for records in (*answer.answer, *answer.authority):
            if records.rdtype == RdataType.SOA and name.is_subdomain(records.name):
                return records.name
        candidate = candidate.parent()  # it is an alias (CNAME), and the answer has no SOA record
    raise DnsZoneUnknown(
        f"The name server {exchange.server} has no zone that {text} would be in: name the right server, or a name "
        "in one of its zones.",
        name=text,
    )
