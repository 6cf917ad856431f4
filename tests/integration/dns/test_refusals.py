"""Refusals and failures of a name server become typed errors of one sentence, which never show the secret."""

import asyncio
import base64
import logging
import struct
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import dns.message
import dns.tsig
import pytest
from dns.flags import Flag
from dns.rcode import Rcode
from dns.tsig import Key

from interlock.dns import Dns, Published, dns_from_url
from interlock.errors import (
    ConfigurationError,
    DnsClockSkewed,
    DnsDenied,
    DnsError,
    DnsFailed,
    DnsUnreachable,
    DnsZoneUnknown,
    InterlockError,
)
from support.bind import STUCK_ZONE, ZONE, Bind
from support.ports import closed_port

OTHER_SECRET = base64.b64encode(b"another secret of 32 bytes......").decode()


async def refusal(names: Dns, host: str) -> DnsError:
    """Every operation fails with the same error, which is returned."""
    refused = []
    for verb in (names.publish(host, "127.0.0.1", "i-1"), names.withdraw(host, "i-1"), names.lookup(host)):
        with pytest.raises(DnsError) as caught:
            await verb
        refused.append(caught.value)
    assert len({type(one) for one in refused}) == 1
    assert {one.name for one in refused} == {names.full_name(host)}
    return refused[0]


@pytest.mark.parametrize("transport", ["tcp", "udp"])
async def test_a_key_that_the_server_does_not_know(bind: Bind, host: str, transport: str) -> None:
    error = await refusal(dns_from_url(bind.url(key="unknown", more=f"&transport={transport}")), host)
    assert isinstance(error, DnsDenied)
    assert "does not know the TSIG key 'unknown' (hmac-sha256)" in str(error)


async def test_a_key_of_another_algorithm(bind: Bind, host: str) -> None:
    error = await refusal(dns_from_url(bind.url(more="&algorithm=hmac-sha384")), host)
    assert isinstance(error, DnsDenied)
    assert "'interlock' (hmac-sha384)" in str(error)


async def test_another_secret(bind: Bind, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DNS_SECRET", OTHER_SECRET)
    url = bind.url().replace(f"secret-file={bind.secret_file}", "secret-env=DNS_SECRET")
    error = await refusal(dns_from_url(url), host)
    assert isinstance(error, DnsDenied)
    assert "has another secret for the TSIG key 'interlock'" in str(error)


async def test_a_key_that_may_not_change_the_zone(bind: Bind, names: Dns, host: str) -> None:
    stranger = dns_from_url(bind.url(key="stranger"))
    await names.publish(host, "127.0.0.1", "i-1")
    for verb in (
        stranger.check(f"{host}-new", "i-2"),
        stranger.publish(f"{host}-new", "127.0.0.1", "i-2"),
        stranger.publish(host, "127.0.0.2", "i-1"),
        stranger.withdraw(host, "i-1"),
    ):
        with pytest.raises(DnsDenied, match="does not let the key 'stranger' read or change"):
            await verb
    assert await names.lookup(host) == Published("i-1", ("127.0.0.1",))
    assert await names.lookup(f"{host}-new") == Published()


async def test_a_zone_that_the_server_does_not_have(bind: Bind, host: str) -> None:
    names = dns_from_url(bind.url(zone="nowhere.example.net"))
    for verb in (names.check(host, "i-1"), names.publish(host, "127.0.0.1", "i-1"), names.withdraw(host, "i-1")):
        with pytest.raises(DnsZoneUnknown, match=rf"is not the primary of the zone that {host}.nowhere.example.net"):
            await verb


@pytest.mark.parametrize("hours", [-1, 1])
async def test_a_clock_that_is_wrong(bind: Bind, host: str, hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sign: Callable[..., Any] = dns.tsig.sign

    def at_another_time(wire: bytes, key: Any, rdata: Any, time: int, *rest: Any) -> Any:
        return sign(wire, key, rdata, time + 3600 * hours, *rest)

    monkeypatch.setattr(dns.tsig, "sign", at_another_time)
    error = await refusal(dns_from_url(bind.url()), host)
    assert isinstance(error, DnsClockSkewed)
    assert "clock" in str(error)


async def test_a_change_that_the_server_cannot_write_down(bind: Bind, host: str) -> None:
    names = dns_from_url(bind.url(zone=STUCK_ZONE))
    with pytest.raises(DnsFailed, match=rf"to answer for {host}.{STUCK_ZONE} \(SERVFAIL\): check the server's log"):
        await names.publish(host, "127.0.0.1", "i-1")
    assert await names.lookup(host) == Published()


async def test_a_server_that_is_not_there(bind: Bind, host: str) -> None:
    with closed_port() as port:
        error = await refusal(dns_from_url(bind.url(port=port)), host)
    assert isinstance(error, DnsUnreachable)
    assert f"127.0.0.1:{port} cannot be reached (Connection refused)" in str(error)


async def test_a_server_without_a_known_address(bind: Bind, host: str) -> None:
    error = await refusal(dns_from_url(bind.url().replace("127.0.0.1", "ns.invalid")), host)
    assert isinstance(error, DnsUnreachable)


@pytest.mark.parametrize("transport", ["tcp", "udp"])
async def test_a_server_that_hangs(bind: Bind, names: Dns, host: str, transport: str) -> None:
    bind.pause()
    try:
        with pytest.raises(DnsUnreachable, match=rf"did not answer within 0.5 s: .* {transport.upper()} reaches it"):
            await dns_from_url(bind.url(more=f"&timeout=0.5&transport={transport}")).lookup(host)
    finally:
        bind.go_on()
    assert await names.lookup(host) == Published()


@asynccontextmanager
async def answering(rcode: Rcode | None, secret: str | None = None) -> AsyncIterator[int]:
    """The port of a server that always answers with that code, signed if it has the secret.

    Without a code it closes.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        [size] = struct.unpack("!H", await reader.readexactly(2))
        wire = await reader.readexactly(size)
        if rcode is not None:
            request = dns.message.from_wire(wire, keyring=Key("interlock", secret) if secret else False)
            response = dns.message.Message(request.id) if not secret else dns.message.make_response(request)
            response.flags |= Flag.QR
            response.set_opcode(request.opcode())
            response.set_rcode(rcode)
            told = response.to_wire()
            writer.write(struct.pack("!H", len(told)) + told)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("rcode", "kind", "said"),
    [
        (Rcode.REFUSED, DnsDenied, "(REFUSED)"),
        (Rcode.NOTAUTH, DnsZoneUnknown, "(NOTAUTH)"),
        (Rcode.NOTZONE, DnsZoneUnknown, "(NOTZONE)"),
        (Rcode.SERVFAIL, DnsFailed, "(SERVFAIL)"),
        (Rcode.FORMERR, DnsFailed, "(FORMERR)"),
        (Rcode.NOTIMP, DnsFailed, "accepts no updates (NOTIMP)"),
        (None, DnsUnreachable, "(the connection ended)"),
    ],
)
async def test_every_answer_of_a_server_becomes_an_error(
    bind: Bind, host: str, rcode: Rcode | None, kind: type[DnsError], said: str
) -> None:
    async with answering(rcode, bind.secret) as port:
        names = dns_from_url(bind.url(port=port))
        verbs: list[Callable[[], Awaitable[None]]] = [
            lambda: names.check(host, "i-1"),
            lambda: names.publish(host, "127.0.0.1", "i-1"),
            lambda: names.withdraw(host, "i-1"),
        ]
        for verb in verbs:
            with pytest.raises(kind) as caught:
                await verb()
            assert type(caught.value) is kind
            assert said in str(caught.value)


@pytest.mark.parametrize("rcode", [Rcode.NOERROR, Rcode.NXRRSET, Rcode.YXDOMAIN, Rcode.REFUSED])
async def test_an_unsigned_answer_is_rejected(bind: Bind, host: str, rcode: Rcode) -> None:
    async with answering(rcode) as port:
        names = dns_from_url(bind.url(port=port))
        for verb in (names.publish(host, "127.0.0.1", "i-1"), names.withdraw(host, "i-1")):
            with pytest.raises(DnsFailed, match=r"is not signed correctly, or cannot be read \(FormError\)"):
                await verb


async def test_a_modified_answer_is_rejected(bind: Bind, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sign: Callable[..., Any] = dns.tsig.sign

    def remembered_wrongly(*arguments: Any) -> Any:
        signed, context = sign(*arguments)
        arguments[1].secret = b"what the answer is checked with is another"
        return signed, context

    monkeypatch.setattr(dns.tsig, "sign", remembered_wrongly)
    with pytest.raises(DnsFailed, match=r"is not signed correctly, or cannot be read \(BadSignature\)"):
        await dns_from_url(bind.url()).withdraw(host, "i-1")


async def test_the_secret_is_shown_nowhere(
    bind: Bind, host: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The secret is not in texts, logs or tracebacks, not even in those that show variables."""
    caplog.set_level(logging.DEBUG)
    (tmp_path / "bad").write_text(f"{bind.secret}!")
    shown = []
    async with answering(None) as hanging_up, answering(Rcode.NOERROR) as unsigned:
        for url in (
            bind.url(),
            bind.url(key="unknown"),
            bind.url(zone="nowhere.example.net"),
            bind.url(port=hanging_up),
            bind.url(port=unsigned),
            bind.url().replace(str(bind.secret_file), str(tmp_path / "bad")),
        ):
            names = dns_from_url(url)
            try:
                await names.publish(host, "127.0.0.1", "i-1")
            except InterlockError as error:
                told = traceback.TracebackException.from_exception(error, capture_locals=True)
                shown.append("".join(told.format()))
            shown += [repr(names), repr(vars(names))]
    with pytest.raises(ConfigurationError) as caught:
        dns_from_url(f"rfc2136://interlock:{bind.secret}@127.0.0.1/{ZONE}?key=interlock")
    text = "\n".join([*shown, str(caught.value), caplog.text])
    assert "dns.published" in text
    assert "does not know the TSIG key" in text
    assert bind.secret not in text
    assert repr(base64.b64decode(bind.secret)) not in text
