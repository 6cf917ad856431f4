"""Spellings of names: two spellings of one name are the same name, and other texts are refused."""

import sys

import pytest

from interlock.errors import ConfigurationError, InvalidName
from interlock.names import dns_label, host_name, plain_name

LABELS = {
    "mydb": "mydb",
    "MyDB": "mydb",
    "0ne": "0ne",
    "a" * 63: "a" * 63,
    "a-b": "a-b",
    "Bücher": "xn--bcher-kva",
    "xn--bcher-kva": "xn--bcher-kva",
    "XN--BCHER-KVA": "xn--bcher-kva",
    "straße": "xn--strae-oqa",  # by the rules of 2003 this was the name of "strasse"
    "faß": "xn--fa-hia",
    "\uff4d\uff59\uff44\uff42": "mydb",
}
HOSTS = {
    "MyDB.Example.com": "mydb.example.com",
    "mydb.example.com.": "mydb.example.com",
    "localhost": "localhost",
    "bücher.example": "xn--bcher-kva.example",
    "my\u3002db": "my.db",
    "1.example": "1.example",
    ".".join(["a" * 61] * 4): ".".join(["a" * 61] * 4),
}
NO_LABELS = [
    "-a", "a-", "a_b", "bad name!", "a.b", "a" * 64, "*", "ab--cd", "xn--a", "xn--zzzz--", "\u0301a", "a\u200db", "a\n",
    "a b", "é" * 60, "b\u00adad.c", "🦄\u200d",
]  # fmt: skip
NO_HOSTS = ["a..b", ".a", "a.-b", "1.2.3.4", "example.42", "::1", ".".join(["a" * 62] * 5), "*.example.com", "a.b.."]


@pytest.mark.parametrize("given", LABELS)
def test_a_label_is_written_as_dns_compares_it(given: str) -> None:
    assert dns_label(given) == LABELS[given]
    assert dns_label(LABELS[given]) == LABELS[given]


@pytest.mark.parametrize("given", HOSTS)
def test_a_host_name_is_written_as_dns_compares_it(given: str) -> None:
    assert host_name(given) == HOSTS[given]
    assert host_name(HOSTS[given]) == HOSTS[given]


@pytest.mark.parametrize("given", NO_LABELS)
def test_an_invalid_label_is_refused(given: str) -> None:
    with pytest.raises(InvalidName) as caught:
        dns_label(given)
    assert caught.value.name == given


@pytest.mark.parametrize("given", [*NO_HOSTS, *(name for name in NO_LABELS if "." not in name)])
def test_an_invalid_host_name_is_refused(given: str) -> None:
    with pytest.raises(InvalidName):
        host_name(given)


@pytest.mark.parametrize("given", ["", "a\nb", "x" * 256, "é" * 128, "\udcff", None, 7])
def test_some_text_is_no_name_at_all(given: str) -> None:
    with pytest.raises(InvalidName):
        plain_name(given)


def test_names_in_ascii_need_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "idna", None)
    assert host_name("MyDB.example.com") == "mydb.example.com"
    with pytest.raises(ConfigurationError, match=r"interlock\[idna\]"):
        dns_label("bücher")
