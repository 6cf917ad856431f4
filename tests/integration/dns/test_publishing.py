"""Host names on a real name server: what is published, what is withdrawn, and what is left alone."""

import asyncio
import socket
from contextlib import nullcontext
from itertools import permutations

import pytest
from dns.message import Message
from dns.rdatatype import RdataType

from interlock.dns import Dns, Published, dns_from_url
from interlock.dns.exchange import Exchange
from interlock.errors import DnsForeign, DnsZoneUnknown, InvalidName
from support.bind import ZONE, Bind

KINDS = (RdataType.A, RdataType.AAAA, RdataType.CNAME)
TARGETS = {
    RdataType.A: "127.0.0.1",
    RdataType.AAAA: "2001:db8::1",
    RdataType.CNAME: "lb-7.eu-west-1.example.net",
}


def written(bind: Bind, host: str) -> dict[RdataType, list[str]]:
    """All records that Interlock could have written."""
    found = {kind: bind.records(host, kind) for kind in KINDS} | {
        RdataType.TXT: bind.records(f"_interlock.{host}", RdataType.TXT)
    }
    return {kind: records for kind, records in found.items() if records}


def mark(owner: str, ttl: int = 60) -> list[str]:
    return [f'{ttl} "heritage=interlock,owner={owner}"']


def record(kind: RdataType, ttl: int = 60) -> list[str]:
    return [f"{ttl} {TARGETS[kind]}{'.' if kind == RdataType.CNAME else ''}"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_a_name_leads_to_its_target_and_names_its_owner(
    bind: Bind, names: Dns, host: str, kind: RdataType
) -> None:
    await names.publish(host, TARGETS[kind], "i-1")
    assert written(bind, host) == {kind: record(kind), RdataType.TXT: mark("i-1")}
    assert await names.lookup(host) == Published("i-1", (TARGETS[kind],))


async def test_a_repeated_publication_changes_nothing(bind: Bind, names: Dns, host: str) -> None:
    await names.publish(host, "127.0.0.1", "i-1")
    before = bind.serial()
    for spelling in (host, host.upper(), f"{host}.{ZONE}", f"{host}.{ZONE}."):
        await names.publish(spelling, "127.0.0.1", "i-1")
    assert bind.serial() == before


@pytest.mark.parametrize(("before", "after"), [*permutations(KINDS, 2)], ids=lambda kind: kind.name)
async def test_a_new_target_takes_the_place_of_the_old_one(
    bind: Bind, names: Dns, host: str, before: RdataType, after: RdataType
) -> None:
    await names.publish(host, TARGETS[before], "i-1")
    await names.publish(host, TARGETS[after], "i-1")
    assert written(bind, host) == {after: record(after), RdataType.TXT: mark("i-1")}


async def test_records_live_as_long_as_the_url_says_from_the_next_time_on(bind: Bind, names: Dns, host: str) -> None:
    await names.publish(host, "127.0.0.1", "i-1")
    await dns_from_url(bind.url(more="&ttl=300")).publish(host, "127.0.0.1", "i-1")
    assert written(bind, host)[RdataType.A] == record(RdataType.A, ttl=300)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_a_withdrawn_name_is_gone(bind: Bind, names: Dns, host: str, kind: RdataType) -> None:
    await names.publish(host, TARGETS[kind], "i-1")
    await names.withdraw(host, "i-1")
    assert written(bind, host) == {}
    assert await names.lookup(host) == Published()
    before = bind.serial()
    await names.withdraw(host, "i-1")
    assert bind.serial() == before


async def test_a_withdrawn_name_can_be_published_for_another_owner(bind: Bind, names: Dns, host: str) -> None:
    await names.publish(host, "127.0.0.1", "i-1")
    await names.withdraw(host, "i-1")
    await names.publish(host, "127.0.0.2", "i-2")
    assert written(bind, host) == {RdataType.A: ["60 127.0.0.2"], RdataType.TXT: mark("i-2")}


async def test_a_foreign_name_is_neither_taken_nor_withdrawn(bind: Bind, names: Dns, host: str) -> None:
    await names.publish(host, "127.0.0.1", "i-1")
    before = bind.serial()
    for verb in (names.check(host, "i-2"), names.publish(host, "127.0.0.1", "i-2")):
        with pytest.raises(DnsForeign, match=f"{host}.{ZONE} is published for i-1: ") as refused:
            await verb
        assert (refused.value.name, refused.value.owner) == (f"{host}.{ZONE}", "i-1")
    await names.withdraw(host, "i-2")
    assert bind.serial() == before


@pytest.mark.parametrize("kind", ["A", "AAAA", "CNAME", "MX", "TXT"])
async def test_foreign_records_are_neither_taken_nor_withdrawn(bind: Bind, names: Dns, host: str, kind: str) -> None:
    value = {"A": "192.0.2.1", "AAAA": "2001:db8::2", "CNAME": "ns", "MX": "10 ns", "TXT": "hello"}[kind]
    bind.by_hand(("add", host, "60", kind, value))
    before = bind.serial()
    for verb in (names.check(host, "i-1"), names.publish(host, "127.0.0.1", "i-1")):
        with pytest.raises(DnsForeign, match=r"has records that are not Interlock's: ") as refused:
            await verb
        assert refused.value.owner is None
    await names.withdraw(host, "i-1")
    assert bind.serial() == before


async def test_a_name_without_its_mark_has_no_owner(bind: Bind, names: Dns, host: str) -> None:
    await names.publish(host, "127.0.0.1", "i-1")
    bind.by_hand(("delete", f"_interlock.{host}", "TXT"))
    with pytest.raises(DnsForeign, match="not Interlock's"):
        await names.publish(host, "127.0.0.1", "i-1")
    assert written(bind, host) == {RdataType.A: ["60 127.0.0.1"]}


async def test_a_name_with_two_marks_belongs_to_neither(bind: Bind, names: Dns, host: str) -> None:
    await names.publish(host, "127.0.0.1", "i-1")
    bind.by_hand(("add", f"_interlock.{host}", "60", "TXT", '"heritage=interlock,owner=i-2"'))
    before = bind.serial()
    for id_ in ("i-1", "i-2"):
        with pytest.raises(DnsForeign, match="not Interlock's"):
            await names.publish(host, "127.0.0.2", id_)
        await names.withdraw(host, id_)
    assert bind.serial() == before


async def test_a_name_whose_record_is_lost_is_published_again(bind: Bind, names: Dns, host: str) -> None:
    await names.publish(host, "127.0.0.1", "i-1")
    bind.by_hand(("delete", host, "A"))
    with pytest.raises(DnsForeign, match="i-1"):
        await names.publish(host, "127.0.0.2", "i-2")
    await names.publish(host, "127.0.0.1", "i-1")
    assert written(bind, host) == {RdataType.A: record(RdataType.A), RdataType.TXT: mark("i-1")}


async def test_foreign_records_beside_a_name_stay(bind: Bind, names: Dns, host: str) -> None:
    await names.publish(host, "127.0.0.1", "i-1")
    bind.by_hand(("add", host, "60", "MX", "10 ns"))
    await names.publish(host, "127.0.0.2", "i-1")
    with pytest.raises(DnsForeign, match="has other records, and a name that is an alias"):
        await names.publish(host, "elsewhere.example.net", "i-1")
    await names.withdraw(host, "i-1")
    assert written(bind, host) == {}
    assert bind.records(host, RdataType.MX) == [f"60 10 ns.{ZONE}."]


async def test_a_wildcard_of_the_zone_takes_no_name(bind: Bind, names: Dns, host: str) -> None:
    bind.by_hand(
        ("add", f"*.{host}", "60", "A", "192.0.2.1"),
        ("add", f"*.{host}", "60", "TXT", '"v=spf1 -all"'),
    )
    name = f"mine.{host}.{ZONE}"
    await names.check(name, "i-1")
    await names.publish(name, "127.0.0.1", "i-1")
    assert await names.lookup(name) == Published("i-1", ("127.0.0.1",))
    await names.withdraw(name, "i-1")
    assert await names.lookup(name) == Published(None, ("192.0.2.1",))


async def test_a_check_changes_nothing(bind: Bind, names: Dns, host: str) -> None:
    before = bind.serial()
    await names.check(host, "i-1")
    assert bind.serial() == before
    await names.publish(host, "127.0.0.1", "i-1")
    before = bind.serial()
    await names.check(host, "i-1")
    assert bind.serial() == before
    assert await names.lookup(host) == Published("i-1", ("127.0.0.1",))


async def test_the_zone_is_queried_if_the_url_names_none(bind: Bind, names: Dns, host: str) -> None:
    asking = dns_from_url(bind.url(zone=""))
    name = f"a.{host}.{ZONE}"
    for target in ("127.0.0.1", f"ns.{ZONE}", "elsewhere.example.net", "127.0.0.2"):  # a CNAME hides the zone
        await asking.publish(name, target, "i-1")
        assert await names.lookup(name) == Published("i-1", (target,))
    await asking.withdraw(name, "i-1")
    assert await names.lookup(name) == Published()


@pytest.mark.parametrize("name", ["mydb.example.net", "mydb", f"mydb.delegated.{ZONE}"])
async def test_a_name_in_no_zone_of_the_server_is_refused(bind: Bind, name: str) -> None:
    with pytest.raises(DnsZoneUnknown, match=rf"has no zone that {name} would be in: ") as refused:
        await dns_from_url(bind.url(zone="")).publish(name, "127.0.0.1", "i-1")
    assert refused.value.name == name


@pytest.mark.parametrize("name", [ZONE, "mydb.example.com", f"my{ZONE}", "a_b", ""])
async def test_a_name_outside_the_zone_is_refused_without_a_request(names: Dns, name: str) -> None:
    with pytest.raises(InvalidName):
        await names.publish(name, "127.0.0.1", "i-1")


@pytest.mark.parametrize("more", ["&transport=udp", "&algorithm=hmac-sha512"])
async def test_other_ways_to_ask(bind: Bind, host: str, more: str) -> None:
    names = dns_from_url(bind.url(key="longer" if "sha512" in more else "interlock", more=more))
    await names.publish(host, "127.0.0.1", "i-1")
    assert await names.lookup(host) == Published("i-1", ("127.0.0.1",))
    await names.withdraw(host, "i-1")
    assert await names.lookup(host) == Published()


async def test_the_secret_may_be_in_a_variable_or_in_a_file_of_binds(
    bind: Bind, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DNS_SECRET", bind.secret)
    by_variable = bind.url().replace(f"secret-file={bind.secret_file}", "secret-env=DNS_SECRET")
    by_file = bind.url().replace(str(bind.secret_file), f"{bind.directory}/named.conf")
    for url in (by_variable, by_file):
        await dns_from_url(url).publish(host, "127.0.0.1", "i-1")


@pytest.mark.parametrize("first", ["refuses", "is silent"])
async def test_a_server_is_reached_at_the_address_that_answers(
    bind: Bind, host: str, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: list[float] = []
    send_to = Exchange._send_to

    async def impatient(exchange: Exchange, where: str, message: Message, timeout: float) -> Message:
        shares.append(timeout)
        return await send_to(exchange, where, message, 0.1 if where == "127.0.0.2" else timeout)

    async def found(_: object, host: str, port: int, **options: object) -> list[tuple[object, ...]]:
        assert host == "ns.example.com"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (where, port)) for where in ("127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", found)
    monkeypatch.setattr(Exchange, "_send_to", impatient)
    names = dns_from_url(bind.url(more="&timeout=60").replace("127.0.0.1", "ns.example.com"))
    with socket.create_server(("127.0.0.2", bind.port)) if first == "is silent" else nullcontext():
        await names.publish(host, "127.0.0.1", "i-1")
    assert shares == [30, 60]
    assert bind.records(host, RdataType.A) == ["60 127.0.0.1"]
