"""A request to a name server and its answer, both signed. Failures become errors of Interlock.

A request is sent once to each address of the server until one answers. This module does not repeat a request; the
caller may always repeat it safely. Only a signed answer counts, which dnspython ensures: an answer without a signature
could come from anyone, and claim that a name is published, or gone.
"""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import dns.asyncquery
import dns.exception
import dns.message
import dns.rcode
import dns.tsig
from dns.rcode import Rcode

from interlock.dns import secret
from interlock.dns.address import Address
from interlock.errors import DnsClockSkewed, DnsDenied, DnsError, DnsFailed, DnsUnreachable, DnsZoneUnknown

_UNMET = (Rcode.YXDOMAIN, Rcode.NXDOMAIN, Rcode.YXRRSET, Rcode.NXRRSET)


class _Key(dns.tsig.Key):
    """A key that does not show its secret when a debugger prints the variables of a traceback."""

    def __repr__(self) -> str:
        return f"<TSIG key {self.name}>"


class Exchange:
    def __init__(self, address: Address) -> None:
        self._address = address

    @property
    def server(self) -> str:
        return str(self._address)

    async def update(self, message: dns.message.Message, name: str) -> bool:
        """Send an update.

        Returns True if the change was made, False if its prerequisites do not hold and nothing was changed.
        """
        answer = await self.send(message, name)
        if answer.rcode() not in (Rcode.NOERROR, *_UNMET):
            raise self._refusal(answer.rcode(), name)
        return answer.rcode() == Rcode.NOERROR

    async def query(self, message: dns.message.Message, name: str) -> dns.message.Message:
        answer = await self.send(message, name)
        if answer.rcode() not in (Rcode.NOERROR, Rcode.NXDOMAIN):
            raise self._refusal(answer.rcode(), name)
        return answer

    async def send(self, message: dns.message.Message, name: str) -> dns.message.Message:
        """Send a message and return the answer, with any result code.

        `name` is the host name that the message is about.
        """
        address = self._address
        message.use_tsig(_Key(address.key, secret.read(address), address.algorithm))
        with self._translated_errors(name):
            async with asyncio.timeout(address.timeout):
                return await self._send(message)

    async def _send(self, message: dns.message.Message) -> dns.message.Message:
        address = self._address
        found = await asyncio.get_running_loop().getaddrinfo(address.server, address.port, type=socket.SOCK_STREAM)
        hosts = list(dict.fromkeys(str(where[0]) for *_, where in found))
        for host in hosts[:-1]:
            with suppress(OSError, EOFError):  # this address does not answer; another one may
                return await self._send_to(host, message, address.timeout / len(hosts))
        return await self._send_to(hosts[-1], message, address.timeout)

    async def _send_to(self, host: str, message: dns.message.Message, timeout: float) -> dns.message.Message:
        async with asyncio.timeout(timeout):
            if self._address.transport == "tcp":
                return await dns.asyncquery.tcp(message, host, port=self._address.port)
            return await dns.asyncquery.udp(message, host, port=self._address.port, ignore_unexpected=True)

    @contextmanager
    def _translated_errors(self, name: str) -> Iterator[None]:
        address = self._address
        try:
            yield
        except TimeoutError:
            raise DnsUnreachable(
                f"The name server {address} did not answer within {address.timeout:g} s: check that it runs, and "
                f"that {address.transport.upper()} reaches it.",
                name=name,
            ) from None
        except (OSError, EOFError) as error:
            raise DnsUnreachable(
                f"The name server {address} cannot be reached ({_reason(error)}): check that it runs at that address.",
                name=name,
            ) from error
        except (dns.tsig.PeerBadTime, dns.tsig.BadTime) as error:
            raise DnsClockSkewed(
                f"This machine's clock and the clock of the name server {address} differ too much for a signed "
                "request: correct the clocks, for example by NTP.",
                name=name,
            ) from error
        except dns.tsig.PeerError as error:
            raise DnsDenied(
                f"The name server {address} {_about_key(error)} {address.key!r} ({address.algorithm}): compare name, "
                "algorithm and secret with the server's settings.",
                name=name,
            ) from error
        except dns.exception.DNSException as error:
            raise DnsFailed(
                f"The answer of the name server {address} is not signed correctly, or cannot be read "
                f"({type(error).__name__}): check that the server accepts signed updates.",
                name=name,
            ) from error

    def _refusal(self, rcode: Rcode, name: str) -> DnsError:
        address, said = self._address, dns.rcode.to_text(rcode)
        match rcode:
            case Rcode.REFUSED:
                return DnsDenied(
                    f"The name server {address} does not let the key {address.key!r} read or change {name} "
                    f"({said}): allow this key in the settings of the zone.",
                    name=name,
                )
            case Rcode.NOTAUTH | Rcode.NOTZONE:
                return DnsZoneUnknown(
                    f"The name server {address} is not the primary of the zone that {name} would be in ({said}): "
                    "name the right server and zone in the DNS URL.",
                    name=name,
                )
            case Rcode.NOTIMP:
                return DnsFailed(
                    f"The name server {address} accepts no updates ({said}): name another server.", name=name
                )
        return DnsFailed(
            f"The name server {address} failed to answer for {name} ({said}): check the server's log.", name=name
        )


def _about_key(error: dns.tsig.PeerError) -> str:
    match error:
        case dns.tsig.PeerBadKey():
            return "does not know the TSIG key"
        case dns.tsig.PeerBadSignature():
            return "has another secret for the TSIG key"
    return "refuses the TSIG key"


def _reason(error: OSError | EOFError) -> str:
    number = getattr(error, "errno", None) or 0
    return os.strerror(number) if number > 0 else getattr(error, "strerror", None) or "the connection ended"
