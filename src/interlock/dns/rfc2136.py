"""Dynamic updates of a zone (RFC 2136), signed (TSIG, RFC 8945).

Beside each published name stands a mark, a TXT record at ``_interlock.NAME``, with the id of its owner. (Not at the
name itself: nothing may stand beside a CNAME.) Name and mark are written in one message, and the server carries out a
message as a whole or not at all; so a crash at any moment leaves nothing half made.

Every message carries its condition as prerequisites, which the server checks in the same step: a new name only if
neither name nor mark exist, a change only if the mark is ours alone. Of any number of messages that come at once, one
makes the name, and the others are told that it exists. Then they try to change it as their own, and those with another
mark are refused. A lost answer does no harm: a repeated request finds its own mark.
"""

from dataclasses import dataclass

import dns.exception
import dns.message
import dns.name
import dns.rdata
import dns.update
from dns.rdatatype import RdataType
from dns.rdtypes.ANY.TXT import TXT

from interlock.dns import marks
from interlock.dns.address import Address
from interlock.dns.exchange import Exchange
from interlock.dns.port import Published
from interlock.dns.zones import zone_of
from interlock.errors import DnsForeign, InvalidName
from interlock.logs import events
from interlock.names import host_name

log = events(__name__)

_TRIES = 3


@dataclass(frozen=True, slots=True)
class _Place:
    text: str
    name: dns.name.Name
    mark: dns.name.Name
    zone: dns.name.Name

    def message(self) -> dns.update.UpdateMessage:
        return dns.update.UpdateMessage(self.zone)


class Rfc2136:
    """Every request is a connection of its own: nothing is kept open, and nothing has to be closed."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._exchange = Exchange(address)

    def __repr__(self) -> str:
        return f"Rfc2136({str(self._address)!r}, zone={self._address.zone!r})"

    def full_name(self, name: str) -> str:
        """One without dots is in the zone that the URL names."""
        whole, zone = host_name(name), self._address.zone
        if zone and "." not in whole:
            whole = host_name(f"{whole}.{zone}")
        if zone and not whole.endswith(f".{zone}"):
            raise InvalidName(f"{name!r} is not in the zone {zone}: use a name that ends with .{zone}.", name=name)
        _in_dns(f"{marks.LABEL}.{whole}")
        return whole

    async def check(self, name: str, owner: str) -> None:
        await self._made_or_confirmed(await self._place(name), owner, None)

    async def publish(self, name: str, target: str, owner: str) -> None:
        place = await self._place(name)
        is_new = await self._made_or_confirmed(place, owner, marks.leading_to(target, place.text))
        log.info("dns.published", extra={"host": place.text, "target": target, "owner": owner, "is_new": is_new})

    async def withdraw(self, name: str, owner: str) -> None:
        place = await self._place(name)
        message = place.message()
        message.present(place.mark, marks.mark(owner))
        _remove(message, place)
        was_there = await self._exchange.update(message, place.text)
        log.info("dns.withdrawn", extra={"host": place.text, "owner": owner, "was_there": was_there})

    async def look(self, name: str) -> Published:
        return await self._seen(await self._place(name))

    async def _made_or_confirmed(self, place: _Place, owner: str, record: dns.rdata.Rdata | None) -> bool:
        """Whether the name was free. Without a record nothing is changed."""
        mark = marks.mark(owner)
        for _ in range(_TRIES):
            if await self._made(place, mark, record):
                return True
            if await self._changed(place, mark, record):
                return False
            seen = await self._seen(place)
            is_ours_or_free = seen in (Published(), Published(owner, seen.targets))
            if not is_ours_or_free:  # else it changed since it was in the way: try again
                break
        raise _foreign(place, seen)

    async def _made(self, place: _Place, mark: TXT, record: dns.rdata.Rdata | None) -> bool:
        message = place.message()
        message.absent(place.name)
        message.absent(place.mark)
        if record:
            message.add(place.mark, self._address.ttl, mark)
            message.add(place.name, self._address.ttl, record)
        else:  # takes nothing away from a name that has nothing, but may only be asked for by whoever may change it
            _remove(message, place)
        return await self._exchange.update(message, place.text)

    async def _changed(self, place: _Place, mark: TXT, record: dns.rdata.Rdata | None) -> bool:
        message = place.message()
        message.present(place.mark, mark)
        if record:
            for kind in marks.KINDS:
                message.delete(place.name, kind)
            message.add(place.name, self._address.ttl, record)
        is_ours = await self._exchange.update(message, place.text)
        if is_ours and record and record.rdtype == RdataType.CNAME:
            await self._confirm_alias(place, record)
        return is_ours

    async def _confirm_alias(self, place: _Place, record: dns.rdata.Rdata) -> None:
        """A server passes over a CNAME where other records stand (RFC 2136, 3.4.2.2), and does not say so."""
        message = place.message()
        message.present(place.name, record)
        if not await self._exchange.update(message, place.text):
            raise DnsForeign(
                f"{place.text} has records beside ours, and a name that stands for another (CNAME) can have none: "
                "remove them, or let it lead to an address.",
                name=place.text,
                owner=None,
            )

    async def _seen(self, place: _Place) -> Published:
        found = [record for kind in marks.KINDS for record in await self._records(place.name, kind, place)]
        targets = dict.fromkeys(record.to_text().removesuffix(".") for record in found)
        return Published(marks.owner(await self._records(place.mark, RdataType.TXT, place)), tuple(targets))

    async def _records(self, name: dns.name.Name, kind: RdataType, place: _Place) -> list[dns.rdata.Rdata]:
        """What stands at the name itself: of that type, or a CNAME."""
        answer = await self._exchange.query(dns.message.make_query(name, kind, flags=0), place.text)
        return [record for records in answer.answer if records.name == name for record in records]

    async def _place(self, name: str) -> _Place:
        whole, given = self.full_name(name), self._address.zone
        absolute = _in_dns(whole)
        zone = _in_dns(given) if given else await zone_of(absolute, whole, self._exchange)
        return _Place(whole, absolute, _in_dns(f"{marks.LABEL}.{whole}"), zone)


def _in_dns(name: str) -> dns.name.Name:
    try:
        return dns.name.from_text(name)
    except dns.exception.DNSException:
        raise InvalidName(f"{name[:20]!r}… is too long for DNS: use a shorter name.", name=name) from None


def _remove(message: dns.update.UpdateMessage, place: _Place) -> None:
    for kind in marks.KINDS:
        message.delete(place.name, kind)
    message.delete(place.mark, RdataType.TXT)


def _foreign(place: _Place, seen: Published) -> DnsForeign:
    if seen.owner:
        why = f"is published for {seen.owner}: use another name, or delete {seen.owner} first"
    else:
        why = "has records that are not Interlock's: use another name, or remove them if nobody needs them"
    return DnsForeign(f"{place.text} {why}.", name=place.text, owner=seen.owner)
