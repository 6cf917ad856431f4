"""The settings of the driver `kubernetes`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from interlock.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class KubernetesSettings:
    """Without `kubeconfig`, the driver uses the pod's own service account, else KUBECONFIG, else ~/.kube/config."""

    kubeconfig: str | None = None
    context: str | None = None
    """A context of the kubeconfig; None is the kubeconfig's current context."""
    namespace: str | None = None
    """None is the namespace of the context, or of the pod."""
    image: str = "docker.io/library/postgres:{version}"
    versions: tuple[str, ...] = ("14", "15", "16", "17", "18")
    """The major versions of which there is an image, oldest first."""
    user_id: int = 999
    """The image's own user and group `postgres`: 999 in Debian's, 70 in Alpine's."""
    storage_class: str | None = None
    storage_bytes: int = 10 * 1024**3
    """The default size of a volume."""
    cpu: str | None = "100m"
    memory: str | None = "256Mi"
    """The resource requests of a pod; memory is also its limit. None requests nothing."""
    service_type: Literal["LoadBalancer", "ClusterIP"] = "LoadBalancer"
    service_annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations for the cloud's load balancer, such as internal or external."""
    external_dns: bool = True
    """Annotate Services for external-dns.

    Set it to False if Interlock publishes DNS names, as the two would conflict.
    """
    adopt: bool = False
    """Take over objects with the right name and without an owner. Objects of another instance are never taken over."""
    timeout: float = 10.0
    """Seconds that one request to the API server may take."""

    def __post_init__(self) -> None:
        if "{version}" not in self.image:
            raise ConfigurationError(
                f"The image {self.image!r} does not depend on the version: put {{version}} into it."
            )
        if not self.versions:
            raise ConfigurationError("There is no version of PostgreSQL for instances: name at least one.")
        if self.storage_bytes <= 0 or self.timeout <= 0:
            raise ConfigurationError("The size of volumes and the time-out of requests have to be above 0.")
