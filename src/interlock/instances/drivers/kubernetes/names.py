"""The names and labels of an instance's objects.

Every name is derived from the instance's id, which is never reused. Every object carries the id in a label. Objects
that Kubernetes creates itself (pods, volumes) inherit it from the StatefulSet.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from interlock.errors import BadSpec
from interlock.instances.drivers.port import Spec
from interlock.names import host_name

MANAGER = "interlock"
MANAGED_BY = "app.kubernetes.io/managed-by"
INSTANCE = "interlock.dev/instance"
NAME = "interlock.dev/name"
TAGS = "interlock.dev/tags"
CONFIGURATION = "interlock.dev/configuration"
EXTERNAL_DNS = "external-dns.alpha.kubernetes.io/"
CONTAINER = "postgres"
VOLUME = "data"

# Kubernetes puts a StatefulSet's name into a label, followed by a hash: 52 characters are left for the name.
_ID = re.compile(r"[a-z0-9]([-a-z0-9]{0,46}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class ObjectNames:
    id: str

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise BadSpec(
                f"{self.id!r} cannot be the id of an instance on Kubernetes: use lower-case letters, digits and "
                "hyphens, 48 at most."
            )

    @property
    def base(self) -> str:
        """The name of every object that exists once. The names of Services have to begin with a letter."""
        return f"pg-{self.id}"

    @property
    def headless(self) -> str:
        return f"{self.base}-pods"

    @property
    def pod(self) -> str:
        return f"{self.base}-0"

    @property
    def claim(self) -> str:
        return f"{VOLUME}-{self.pod}"

    @property
    def labels(self) -> dict[str, str]:
        return {MANAGED_BY: MANAGER, INSTANCE: self.id}


def annotations(spec: Spec) -> dict[str, str]:
    """Returns the annotations of every object. Names and tags may contain characters that labels may not."""
    return {NAME: spec.name, TAGS: json.dumps(dict(spec.tags), sort_keys=True)}


def external_dns_annotations(name: str, *, ttl: int | None = None) -> dict[str, str]:
    """Returns annotations of the Service for clients. external-dns publishes the Service under the host name.

    external-dns marks its records with a TXT record, and withdraws the name when the Service goes. `ttl` is in seconds.
    """
    lifetime = {} if ttl is None else {f"{EXTERNAL_DNS}ttl": str(ttl)}
    return {f"{EXTERNAL_DNS}hostname": host_name(name), **lifetime}


def ownership(resource: Any, id: str) -> Literal["own", "foreign", "unowned"]:
    labels = resource.metadata.labels or {}
    if labels.get(INSTANCE) == id and labels.get(MANAGED_BY) == MANAGER:
        return "own"
    return "foreign" if INSTANCE in labels else "unowned"
