"""A stand-in for the machines of a cluster: it runs pods in name only, and assigns volumes and addresses.

It works on a real API server too, where the real controllers run beside it and no machine does.
"""

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Body = dict[str, Any]
Trouble = Literal["unschedulable", "image", "crash", "volume", "balancer"]

# So many requests make a step, where nothing else does.
_PACE = 6
_STEPS_TO_END = 5


class Plane(Protocol):
    """The interface of the stand-in to an API server."""

    def things(self, plural: str) -> list[Body]: ...
    def set_status(self, plural: str, thing: Body, status: Body) -> None: ...
    def bind(self, pod: Body) -> None: ...
    def end(self, pod: Body) -> None: ...
    def warn(self, thing: Body, reason: str, message: str) -> None: ...


@dataclass
class Node:
    plane: Plane
    trouble: Trouble | None = None
    pace: int = _PACE
    _steps: int = 0
    _ending: dict[str, int] = field(default_factory=dict)
    """uid of a terminating pod → steps since."""
    _addresses: dict[str, int] = field(default_factory=dict)
    _warned: set[tuple[str, str]] = field(default_factory=set)

    def step(self) -> None:
        self._steps += 1
        if self._steps % self.pace:
            return
        bound = {self._key(claim): self._provide(claim) for claim in self.plane.things("persistentvolumeclaims")}
        for pod in self.plane.things("pods"):
            if "deletionTimestamp" in pod["metadata"]:
                self._end(pod)
            else:
                self._run(pod, bound)
        for service in self.plane.things("services"):
            self._expose(service)

    def _provide(self, claim: Body) -> bool:
        """Return True if the volume exists."""
        if self.trouble == "volume":
            self._warn(claim, "ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found')
            return False
        capacity = {"storage": claim["spec"]["resources"]["requests"]["storage"]}
        status = {"phase": "Bound", "capacity": capacity, "accessModes": claim["spec"]["accessModes"]}
        return self._set("persistentvolumeclaims", claim, status)

    def _run(self, pod: Body, bound: dict[tuple[str, str], bool]) -> None:
        """Advance the pod by one step: scheduled, then started, then ready."""
        namespace = pod["metadata"]["namespace"]
        claims = [
            one["persistentVolumeClaim"]["claimName"]
            for one in pod["spec"]["volumes"]
            if "persistentVolumeClaim" in one
        ]
        if self.trouble == "unschedulable":
            message = "0/3 nodes are available: 3 Insufficient memory."
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            self._set("pods", pod, {"phase": "Pending", "conditions": [condition]})
            self._warn(pod, "FailedScheduling", message)
        elif not all(bound.get((namespace, claim)) for claim in claims):
            return
        elif not pod["spec"].get("nodeName"):
            self.plane.bind(pod)
        elif self.trouble == "image":
            image = pod["spec"]["containers"][0]["image"]
            message = f'Back-off pulling image "{image}"'
            self._set("pods", pod, self._status(pod, {"waiting": {"reason": "ImagePullBackOff", "message": message}}))
            self._warn(pod, "Failed", f'Failed to pull image "{image}": not found')
        elif self.trouble == "crash":
            state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}
            self._set("pods", pod, self._status(pod, state))
        elif pod.get("status", {}).get("containerStatuses"):
            self._set("pods", pod, self._status(pod, pod["status"]["containerStatuses"][0]["state"], ready=True))
        else:
            self._set("pods", pod, self._status(pod, {"running": {"startedAt": pod["metadata"]["creationTimestamp"]}}))

    def _status(self, pod: Body, state: Body, *, ready: bool = False) -> Body:
        container = pod["spec"]["containers"][0]
        running = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
        flag = "True" if ready else "False"
        return {
            "phase": "Running" if "running" in state else "Pending",
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": flag}],
            "containerStatuses": [{**running, "ready": ready, "state": state}],
        }

    def _end(self, pod: Body) -> None:
        steps = self._ending[pod["metadata"]["uid"]] = self._ending.get(pod["metadata"]["uid"], 0) + 1
        if steps > _STEPS_TO_END:
            self.plane.end(pod)

    def _expose(self, service: Body) -> None:
        if service["spec"].get("type") != "LoadBalancer":
            return
        if self.trouble == "balancer":
            self._warn(service, "SyncLoadBalancerFailed", "Error syncing load balancer: no address is left")
            return
        self._set("services", service, {"loadBalancer": {"ingress": [{"ip": self._address(service), "ipMode": "VIP"}]}})

    def _address(self, service: Body) -> str:
        """An address in the range that is reserved for documentation, where no host is."""
        taken = self._addresses.setdefault(service["metadata"]["uid"], len(self._addresses) + 1)
        return f"192.0.2.{taken}"

    def _set(self, plural: str, thing: Body, status: Body) -> bool:
        """Return True if it was so already."""
        there = thing.get("status", {})
        if all(there.get(name) == value for name, value in status.items()):
            return True
        self.plane.set_status(plural, thing, {**there, **status})
        return False

    def _warn(self, thing: Body, reason: str, message: str) -> None:
        if (thing["metadata"]["uid"], reason) not in self._warned:
            self._warned.add((thing["metadata"]["uid"], reason))
            self.plane.warn(thing, reason, message)

    @staticmethod
    def _key(thing: Body) -> tuple[str, str]:
        return thing["metadata"]["namespace"], thing["metadata"]["name"]
