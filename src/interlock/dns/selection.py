"""The choice of a way to publish host names, by a URL.

No connection is opened: a server's errors show at the first use.
"""

from interlock.dns import address
from interlock.dns.port import Dns
from interlock.errors import ConfigurationError
from interlock.names import host_name


class NoDns:
    """Interlock publishes nothing: names are only recorded, or another system publishes them (external-dns, say)."""

    def full_name(self, name: str) -> str:
        return host_name(name)

    async def check(self, name: str, owner: str) -> None:
        host_name(name)

    async def publish(self, name: str, target: str, owner: str) -> None:
        """Does nothing."""

    async def withdraw(self, name: str, owner: str) -> None:
        """Does nothing."""

    async def lookup(self, name: str) -> None:
        """Returns None, because there is no server to query."""


def dns_from_url(url: str) -> Dns:
    """Returns the `Dns` for ``none:`` or ``rfc2136://server/zone?key=…&secret-file=…``.

    Raises `ConfigurationError` for any other URL.
    """
    scheme = url.partition(":")[0].lower() if ":" in url else ""
    if scheme == "none":
        if url.partition(":")[2]:
            raise ConfigurationError("The DNS URL none: must not have text after the colon: remove that text.")
        return NoDns()
    if scheme != "rfc2136":
        shown = f"begins with {scheme + ':'!r}" if scheme else "has no scheme" if url else "is empty"
        raise ConfigurationError(f"The DNS URL {shown}: set it to 'none:', or to a URL like {address.FORM}.")
    found = address.parse_address(url)
    try:
        from interlock.dns.rfc2136 import Rfc2136
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "DNS updates (rfc2136://) need a package that is not installed: pip install 'interlock[dns]'."
        ) from error
    return Rfc2136(found)
