"""What external-dns, in a Kubernetes cluster, reads on a Service to publish it under a host name.

It marks what it owns in a TXT record of its own, and withdraws the name when the Service goes.
"""

from interlock.names import host_name

_PREFIX = "external-dns.alpha.kubernetes.io/"


def annotations(name: str, *, ttl: int | None = None) -> dict[str, str]:
    """For the metadata of the Service that clients connect to; `ttl` is in seconds."""
    lifetime = {} if ttl is None else {f"{_PREFIX}ttl": str(ttl)}
    return {f"{_PREFIX}hostname": host_name(name), **lifetime}
