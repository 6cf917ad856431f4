"""Which way of publishing host names a URL names. Nothing is opened: that it works is seen when it is used."""

from interlock.dns import address
from interlock.dns.none import NoDns
from interlock.dns.port import Dns
from interlock.errors import ConfigurationError


def chosen(url: str) -> Dns:
    """`none:`, or ``rfc2136://server/zone?key=…&secret-file=…``. Raises what is wrong with the URL."""
    scheme = url.partition(":")[0].lower() if ":" in url else ""
    if scheme == "none":
        if url.partition(":")[2]:
            raise ConfigurationError("The DNS URL none: takes nothing behind the colon.")
        return NoDns()
    if scheme != "rfc2136":
        shown = f"begins with {scheme + ':'!r}" if scheme else "has no scheme" if url else "is empty"
        raise ConfigurationError(f"The DNS URL {shown}: use none:, or {address.FORM}.")
    found = address.parsed(url)
    try:
        from interlock.dns.rfc2136 import Rfc2136
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            "DNS updates (rfc2136://) need a package that is not installed: pip install 'interlock[dns]'."
        ) from error
    return Rfc2136(found)
