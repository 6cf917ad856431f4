"""The test's own name server: Debian's bind9 on free loopback ports, with zones that one key may change."""

import base64
import os
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import dns.exception
import dns.message
import dns.query
import dns.update
from dns.rcode import Rcode
from dns.rdatatype import RdataType
from dns.tsig import Key

from support.components import required
from support.postgres import open_directory
from support.waiting import eventually

ZONE = "db.example.com"
STUCK_ZONE = "stuck.example.com"
"""A zone that the key may change and the server cannot write, because its directory is read-only."""
_ZONE_FILE = """\
$TTL 60
@ SOA ns.{zone}. admin.{zone}. 1 3600 600 86400 60
@ NS ns
ns A 127.0.0.1
delegated NS ns.elsewhere.example.net.
"""


@dataclass(frozen=True)
class Bind:
    """Four keys have one secret: `interlock` and `longer` may change host names, `admin` all, `stranger` nothing."""

    directory: Path
    port: int
    process: subprocess.Popen[bytes]
    secret: str = field(repr=False)

    @property
    def secret_file(self) -> Path:
        return self.directory / "key"

    def url(self, *, zone: str = ZONE, key: str = "interlock", more: str = "", port: int | None = None) -> str:
        """The URL for Interlock, with a long timeout unless `more` has another."""
        rest = more if "timeout=" in more else f"{more}&timeout=60"
        return f"rfc2136://127.0.0.1:{port or self.port}/{zone}?key={key}&secret-file={self.secret_file}{rest}"

    def records(self, name: str, kind: RdataType, zone: str = ZONE) -> list[str]:
        """The records with their TTL, as a client reads them."""
        answer = self._asked(dns.message.make_query(f"{name}.{zone}.", kind))
        return sorted(f"{rrset.ttl} {record}" for rrset in answer.answer if rrset.rdtype == kind for record in rrset)

    def serial(self, zone: str = ZONE) -> int:
        """The serial number of the zone, which grows with each change."""
        [rrset] = self._asked(dns.message.make_query(f"{zone}.", "SOA")).answer
        return int(rrset[0].serial)

    def by_hand(self, *changes: tuple[str, ...], zone: str = ZONE) -> None:
        """Changes by an administrator: ("add", name, ttl, type, value) or ("delete", name, type)."""
        message = dns.update.UpdateMessage(zone, keyring=Key("admin", self.secret, "hmac-sha512"))
        for verb, *arguments in changes:
            getattr(message, verb)(*arguments)
        assert self._asked(message).rcode() == Rcode.NOERROR

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self.go_on()
        self.process.terminate()
        self.process.wait()

    def answers(self) -> bool:
        assert self.process.poll() is None, (self.directory / "log").read_text()
        try:
            return self.serial() > 0
        except (OSError, EOFError, ValueError, dns.exception.DNSException):
            return False

    def _asked(self, message: dns.message.Message) -> dns.message.Message:
        return dns.query.tcp(message, "127.0.0.1", port=self.port, timeout=60)


@contextmanager
def running_bind() -> Iterator[Bind]:
    program = required("named", package="bind9")
    with open_directory("interlock-bind-") as directory:
        secret, port = base64.b64encode(secrets.token_bytes(32)).decode(), _free_port()
        (directory / "named.conf").write_text(_configuration(directory, port, secret))
        (directory / "key").write_text(f"{secret}\n")
        for zone in (ZONE, STUCK_ZONE):
            (directory / zone).mkdir()
            (directory / zone / "zone").write_text(_ZONE_FILE.format(zone=zone))
        user = "nobody" if os.geteuid() == 0 else None
        if user:
            shutil.chown(directory, user)
            shutil.chown(directory / ZONE, user)
        (directory / STUCK_ZONE).chmod(0o555)
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                [program, "-f", "-n", "1", "-c", str(directory / "named.conf")], user=user, stdout=log, stderr=log
            )
        bind = Bind(directory, port, process, secret)
        try:
            eventually(bind.answers)
            yield bind
        finally:
            bind.stop()
            (directory / STUCK_ZONE).chmod(0o755)  # otherwise only root could remove its files


def _configuration(directory: Path, port: int, secret: str) -> str:
    keys = {"interlock": "hmac-sha256", "longer": "hmac-sha512", "stranger": "hmac-sha256", "admin": "hmac-sha512"}
    return "\n".join(
        [
            f"""
options {{
    directory "{directory}";
    pid-file none;
    session-keyfile "{directory}/session.key";
    listen-on port {port} {{ 127.0.0.1; }};
    listen-on-v6 {{ none; }};
    recursion no;
    dnssec-validation no;
    notify no;
}};
controls {{ }};
logging {{ channel here {{ stderr; severity info; }}; category default {{ here; }}; }};
""",
            *(f'key "{name}" {{ algorithm {kind}; secret "{secret}"; }};' for name, kind in keys.items()),
            *(_zone(zone) for zone in (ZONE, STUCK_ZONE)),
        ]
    )


def _zone(zone: str) -> str:
    """The first line of the policy is the one in docs/how-to/dns.md."""
    return f"""
zone "{zone}" {{
    type primary;
    file "{zone}/zone";
    update-policy {{
        grant interlock subdomain {zone} A AAAA CNAME TXT;
        grant longer subdomain {zone} A AAAA CNAME TXT;
        grant admin zonesub ANY;
    }};
}};
"""


def _free_port() -> int:
    """A port that is free for TCP and for UDP."""
    while True:
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        ):
            port = int(listener.getsockname()[1])
            try:
                datagrams.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
