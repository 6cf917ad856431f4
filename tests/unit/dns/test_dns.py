"""Publication of host names: the choice by URL, names and targets, and the sources of secrets."""

import base64
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.dns import Dns, NoDns, dns_from_url, marks, secret
from interlock.dns.address import Address, parse_address
from interlock.errors import ConfigurationError, InvalidName
from interlock.instances.drivers.kubernetes.names import external_dns_annotations

SECRET = base64.b64encode(b"a secret").decode()
URL = "rfc2136://ns.example.com/db.example.com?key=interlock&secret-file=/run/key"


def test_a_url_names_server_zone_key_and_the_place_of_its_secret() -> None:
    assert parse_address(URL) == Address(
        server="ns.example.com", zone="db.example.com", key="interlock", secret_file=Path("/run/key")
    )
    assert str(parse_address(URL)) == "ns.example.com:53"


def test_a_url_may_say_everything() -> None:
    more = (
        "rfc2136://[::1]:5353?key=A_key.example.&algorithm=HMAC-SHA512&secret-env=KEY&ttl=300&timeout=2.5&transport=udp"
    )
    assert parse_address(more) == Address(
        server="::1",
        port=5353,
        zone=None,
        key="a_key.example.",
        algorithm="hmac-sha512",
        secret_env="KEY",
        ttl=300,
        timeout=2.5,
        transport="udp",
    )
    assert str(parse_address(more)) == "[::1]:5353"


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("", "is empty"),
        ("mydb", "has no scheme"),
        ("route53://x", "begins with 'route53:'"),
        ("none://x", "must not have text after the colon"),
        ("rfc2136:", "has to name a server"),
        ("rfc2136:///zone?key=a&secret-file=b", "has to name a server"),
        ("rfc2136://ns:99999/zone?key=a&secret-file=b", "cannot be read"),
        ("rfc2136://ns:0/zone?key=a&secret-file=b", "has to name a server"),
        ("rfc2136://[::1/zone?key=a&secret-file=b", "cannot be read"),
        ("rfc2136://ns/zone?key", "cannot be read"),
        ("rfc2136://ns/bad_zone.?key=a&secret-file=b", "does not name a valid zone"),
        ("rfc2136://ns/zone?secret-file=b", "has to name the TSIG key"),
        ("rfc2136://ns/zone?key=a b&secret-file=b", "has to name the TSIG key"),
        ("rfc2136://ns/zone?key=a", "exactly one place of the TSIG secret"),
        ("rfc2136://ns/zone?key=a&secret-file=b&secret-env=c", "exactly one place of the TSIG secret"),
        ("rfc2136://ns/zone?key=a&secret-file=b&tll=5", "the unknown parameter 'tll'"),
        ("rfc2136://ns/zone?key=a&secret-file=b&ttl=0", "ttl='0'"),
        ("rfc2136://ns/zone?key=a&secret-file=b&ttl=nan", "ttl='nan'"),
        ("rfc2136://ns/zone?key=a&secret-file=b&ttl=soon", "ttl='soon'"),
        ("rfc2136://ns/zone?key=a&secret-file=b&timeout=0", "timeout='0'"),
        ("rfc2136://ns/zone?key=a&secret-file=b&algorithm=hmac-md5", "algorithm='hmac-md5'"),
        ("rfc2136://ns/zone?key=a&secret-file=b&transport=https", "transport='https'"),
    ],
)
def test_errors_in_a_url_are_reported(url: str, what: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        dns_from_url(url)
    assert what in str(caught.value)


@pytest.mark.parametrize("url", [f"{URL}&secret={SECRET}", f"rfc2136://interlock:{SECRET}@ns/zone?key=a&secret-env=b"])
def test_a_secret_in_the_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError, match="The DNS URL must not contain a secret") as caught:
        dns_from_url(url)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        f"\n {SECRET[:4]}\n{SECRET[4:]}\n",
        f'key "interlock" {{\n\talgorithm hmac-sha256;\n\tsecret "{SECRET}";\n}};\n',
    ],
)
def test_a_secret_is_read_from_a_file_each_time(tmp_path: Path, text: str) -> None:
    address = Address(server="ns", key="interlock", secret_file=tmp_path / "key")
    (tmp_path / "key").write_text(text)
    assert secret.read(address) == b"a secret"
    (tmp_path / "key").write_text(base64.b64encode(b"a new one").decode())
    assert secret.read(address) == b"a new one"


def test_a_secret_is_read_from_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    address = Address(server="ns", key="interlock", secret_env="DNS_SECRET")
    with pytest.raises(ConfigurationError, match="in the variable DNS_SECRET, which is not set"):
        secret.read(address)
    monkeypatch.setenv("DNS_SECRET", SECRET)
    assert secret.read(address) == b"a secret"


@pytest.mark.parametrize("content", [b"", b"not Base64!", b"\xff\xfe", b'key "a" { secret ""; };'])
def test_an_invalid_secret_is_reported_and_not_shown(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"There is no TSIG secret in .*key: put it there as Base64") as caught:
        secret.read(Address(server="ns", key="interlock", secret_file=tmp_path / "key"))
    assert "not Base64!" not in str(caught.value)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"key cannot be read \(No such file or directory\)"):
        secret.read(Address(server="ns", key="interlock", secret_file=tmp_path / "key"))


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("MyDB", "mydb.db.example.com"),
        ("mydb.", "mydb.db.example.com"),
        ("mydb.db.example.com.", "mydb.db.example.com"),
        ("a.mydb.DB.example.com", "a.mydb.db.example.com"),
        ("bücher", "xn--bcher-kva.db.example.com"),
    ],
)
def test_every_spelling_of_a_name_is_one_name(name: str, full: str) -> None:
    assert dns_from_url(URL).full_name(name) == full


@pytest.mark.parametrize(
    "name",
    [
        "",
        "db.example.com",
        "example.com",
        "mydb.example.com",
        "mydb.otherdb.example.com",
        "_interlock.mydb.db.example.com",
        "*.db.example.com",
        "127.0.0.1",
    ],
)
def test_names_outside_the_zone_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        dns_from_url(URL).full_name(name)


def test_a_name_that_has_no_room_for_its_mark_is_refused() -> None:
    names = dns_from_url("rfc2136://ns?key=interlock&secret-file=/run/key")
    name = ".".join(["a" * 60] * 4)
    assert names.full_name(name[4:]) == name[4:]
    with pytest.raises(InvalidName, match="too long for DNS"):
        names.full_name(f"{name}.long")


@pytest.mark.parametrize(
    ("target", "record"),
    [
        ("192.0.2.1", "A 192.0.2.1"),
        ("2001:DB8::0:1", "AAAA 2001:db8::1"),
        ("LB.Example.net.", "CNAME lb.example.net."),
        ("localhost", "CNAME localhost."),
    ],
)
def test_a_target_is_an_address_or_another_name(target: str, record: str) -> None:
    found = marks.target_record(target, "mydb.db.example.com")
    assert f"{found.rdtype.name} {found}" == record


@pytest.mark.parametrize(
    "target",
    ["", "0.0.0.0", "::", "224.0.0.1", "fe80::1%eth0", "300.1.1.1", "a b", "MyDB.db.example.com."],  # noqa: S104
)
def test_an_address_that_clients_cannot_reach_is_no_target(target: str) -> None:
    with pytest.raises(InvalidName):
        marks.target_record(target, "mydb.db.example.com")


def test_a_mark_names_its_owner() -> None:
    assert marks.owner([marks.mark("i-1")]) == "i-1"
    assert marks.owner([marks.target_record("192.0.2.1", "mydb")]) is None
    assert marks.owner([marks.mark("i-1"), marks.mark("i-2")]) is None
    assert marks.owner([]) is None


async def test_without_dns_names_are_only_checked() -> None:
    names: Dns = dns_from_url("none:")
    assert isinstance(names, NoDns)
    assert names.full_name("MyDB.Example.com.") == "mydb.example.com"
    await names.check("mydb", "i-1")
    await names.publish("mydb", "127.0.0.1", "i-1")
    assert await names.lookup("mydb") is None  # type: ignore[func-returns-value]
    await names.withdraw("mydb", "i-1")
    with pytest.raises(InvalidName):
        await names.check("my_db", "i-1")


def test_external_dns_reads_annotations() -> None:
    assert external_dns_annotations("MyDB.example.com.") == {
        "external-dns.alpha.kubernetes.io/hostname": "mydb.example.com"
    }
    assert external_dns_annotations("mydb.example.com", ttl=60) == {
        "external-dns.alpha.kubernetes.io/hostname": "mydb.example.com",
        "external-dns.alpha.kubernetes.io/ttl": "60",
    }


def test_a_missing_dnspython_is_reported_only_when_it_is_needed() -> None:
    program = f"""
import sys
sys.modules["dns"] = None
from interlock.errors import ConfigurationError
from interlock.dns import dns_from_url
dns_from_url("none:")
try:
    dns_from_url({URL!r})
except ConfigurationError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "DNS updates (rfc2136://) need a package that is not installed: pip install 'interlock[dns]'.\n"
    )
