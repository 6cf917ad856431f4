"""Where instances are made, and what of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from interlock.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class KubernetesSettings:
    """Without `kubeconfig`: the pod's own service account, else KUBECONFIG, else ~/.kube/config."""

    kubeconfig: str | None = None
    context: str | None = None
    """A context of the kubeconfig; None is its current one."""
    namespace: str | None = None
    """None is the context's, or the pod's own."""
    image: str = "docker.io/library/postgres:{version}"
    versions: tuple[str, ...] = ("14", "15", "16", "17", "18")
    """The major versions that the image is there for, oldest first."""
    user_id: int = 999
    """The image's own user and group `postgres`: 999 in Debian's, 70 in Alpine's."""
    storage_class: str | None = None
    storage_bytes: int = 10 * 1024**3
    """The size of a volume where none is asked for."""
    cpu: str | None = "100m"
    memory: str | None = "256Mi"
    """What is requested for a pod; memory is also the limit. None requests nothing."""
    service_type: Literal["LoadBalancer", "ClusterIP"] = "LoadBalancer"
    service_annotations: Mapping[str, str] = field(default_factory=dict)
    """For the cloud's load balancer: internal or not, of which kind."""
    external_dns: bool = True
    """Whether external-dns is told DNS names. Not where Interlock publishes them: each would find the other's."""
    adopt: bool = False
    """Take over objects of the right name that belong to nobody. What is another instance's is never taken."""
    timeout: float = 10.0
    """Seconds that one request to the API server may take."""

    def __post_init__(self) -> None:
        if "{version}" not in self.image:
            raise ConfigurationError(
                f"The image {self.image!r} is the same for every version: put {{version}} into it."
            )
        if not self.versions:
            raise ConfigurationError("There is no version to make instances of: name one at least.")
        if self.storage_bytes <= 0 or self.timeout <= 0:
            raise ConfigurationError("The size of volumes and the time-out of requests have to be above 0.")
