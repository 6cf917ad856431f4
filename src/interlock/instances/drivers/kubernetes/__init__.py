"""Instances as StatefulSets of a Kubernetes namespace. Needs the extra `kubernetes`."""

from interlock.instances.drivers.kubernetes.driver import KubernetesDriver
from interlock.instances.drivers.kubernetes.settings import KubernetesSettings

__all__ = ["KubernetesDriver", "KubernetesSettings"]
