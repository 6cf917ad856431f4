"""The observed state of an instance, derived from its objects and their warnings. Pure functions."""

from collections.abc import Sequence
from typing import Any

from lightkube.resources.apps_v1 import StatefulSet
from lightkube.resources.core_v1 import PersistentVolumeClaim, Secret, Service

from interlock.instances.drivers.kubernetes.credentials import CERTIFICATE, entry
from interlock.instances.drivers.kubernetes.inventory import Inventory, describe
from interlock.instances.drivers.kubernetes.names import CONFIGURATION, NAME
from interlock.instances.drivers.kubernetes.objects import PORT, VERSION
from interlock.instances.drivers.port import Endpoint, Observation

# Kubernetes retries these with growing pauses, but they do not recover by themselves.
_HOPELESS = frozenset(
    {"CrashLoopBackOff", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"}
    | {"CreateContainerError", "RunContainerError"}
)


def with_warnings(inventory: Inventory) -> list[Any]:
    """Returns the objects whose warnings explain why no pod is ready."""
    names = inventory.names
    candidates = [inventory.get(StatefulSet), inventory.pod, inventory.get(PersistentVolumeClaim, names.claim)]
    return [resource for resource in [*candidates, inventory.get(Service)] if resource is not None]


def observed_state(inventory: Inventory, warnings: Sequence[Any] = (), *, namespace: str) -> Observation:
    if not inventory.resources:
        return Observation("absent")
    stateful_set = inventory.get(StatefulSet)
    if stateful_set is None or stateful_set.metadata.deletionTimestamp:
        return _remains(inventory)
    version = (stateful_set.metadata.labels or {}).get(VERSION)
    pod = inventory.pod
    if stateful_set.spec.replicas == 0:
        if pod is None:
            return Observation("stopped", version=version)
        return Observation("starting", version=version, detail="It is shutting down.")
    if pod is None or pod.metadata.deletionTimestamp or not is_ready(pod):
        state, detail = _not_ready(inventory, pod, warnings)
        return Observation(state, version=version, detail=detail)
    return _reachable(inventory, version, warnings, namespace)


def is_ready(pod: Any) -> bool:
    return any(one.type == "Ready" and one.status == "True" for one in _conditions(pod))


def is_up_to_date(pod: Any, stateful_set: Any | None) -> bool:
    """Return True if the pod was started with the current configuration."""
    wanted = stateful_set.spec.template.metadata.annotations if stateful_set is not None else None
    started_with = pod.metadata.annotations or {}
    return started_with.get(CONFIGURATION) == (wanted or {}).get(CONFIGURATION)


def _remains(inventory: Inventory) -> Observation:
    if terminating := inventory.terminating:
        return Observation(
            "stopped", detail=f"It is being removed, and waits for {', '.join(map(describe, terminating))}."
        )
    parts = ", ".join(map(describe, inventory.resources))
    return Observation(
        "broken", detail=f"Only a part of the instance exists ({parts}): provision the instance again, or remove it."
    )


def _reachable(inventory: Inventory, version: str | None, warnings: Sequence[Any], namespace: str) -> Observation:
    service, secret = inventory.get(Service), inventory.get(Secret)
    if service is None or secret is None:
        missing = "Service" if service is None else "Secret"
        return Observation(
            "broken", version=version, detail=f"The instance's {missing} is gone: provision the instance again."
        )
    host = _host(service, namespace)
    if host is None:
        return Observation(
            "starting", version=version, detail=_latest(warnings) or "It waits for the load balancer's address."
        )
    owner = (service.metadata.annotations or {}).get(NAME, "")
    endpoint = Endpoint(host, PORT, owner, owner, ca=entry(secret, CERTIFICATE))
    return Observation("running", endpoint, version)


def _host(service: Any, namespace: str) -> str | None:
    if service.spec.type != "LoadBalancer":
        return f"{service.metadata.name}.{namespace}.svc"
    balancer = service.status.loadBalancer if service.status else None
    return next((one.ip or one.hostname for one in (balancer.ingress if balancer else None) or []), None)


def _not_ready(inventory: Inventory, pod: Any | None, warnings: Sequence[Any]) -> tuple[Any, str]:
    """Returns the state of an instance without a ready pod, and the reason."""
    warning = _latest(warnings)
    if pod is None:
        claim = inventory.get(PersistentVolumeClaim, inventory.names.claim)
        pending = claim is not None and claim.status is not None and claim.status.phase == "Pending"
        return "starting", warning or ("It waits for its volume." if pending else "It waits for its pod.")
    for container in (pod.status.containerStatuses if pod.status else None) or []:
        waiting = container.state.waiting if container.state else None
        if waiting is not None and waiting.reason in _HOPELESS:
            return "broken", f"{waiting.reason}: {waiting.message or warning or _ended(container)}"
    for condition in _conditions(pod):
        if condition.type == "PodScheduled" and condition.status == "False":
            return "starting", f"{condition.reason}: {condition.message}"
    return "starting", warning or "It waits for PostgreSQL to answer."


def _ended(container: Any) -> str:
    last = container.lastState.terminated if container.lastState else None
    return f"it ended with status {last.exitCode}" if last is not None else "see its log"


def _conditions(pod: Any) -> Sequence[Any]:
    return (pod.status.conditions if pod.status else None) or []


def _latest(warnings: Sequence[Any]) -> str | None:
    if not warnings:
        return None
    event = max(warnings, key=_moment)
    return f"{event.reason}: {event.message}"


def _moment(event: Any) -> str:
    series = event.series.lastObservedTime if event.series else None
    return str(series or event.lastTimestamp or event.eventTime or event.metadata.creationTimestamp or "")
