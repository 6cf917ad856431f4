"""The comparison of a record with the observed state. Pure functions."""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Literal, get_args

from interlock.dns.port import Published
from interlock.instances.drivers.port import Observation, Observed
from interlock.instances.records import InstanceRecord

Kind = Literal["orphan", "vanished", "wrong_state", "dns"]
KINDS: tuple[Kind, ...] = get_args(Kind)
DRIVER_KINDS: tuple[Kind, ...] = ("orphan", "vanished", "wrong_state")

Verdicts = dict[Kind, str]
"""For each kind a sentence that describes the drift; empty without drift. A missing kind could not be checked."""

_WRONG: Mapping[str, tuple[Observed, ...]] = {"running": ("stopped", "broken"), "stopped": ("running", "broken")}


def is_settled(instance: InstanceRecord | None) -> bool:
    """Return True if the record states the wanted state, because no orchestration works on it."""
    return instance is None or not instance.working


def is_unwanted(instance: InstanceRecord | None) -> bool:
    """Return True if the instance has no record, or if it was observed to be gone and its names were freed."""
    return instance is None or instance.names_freed_at is not None


def is_untouched(before: InstanceRecord | None, now: InstanceRecord | None) -> bool:
    """Return True if no orchestration worked on the instance between `before` and `now`.

    The record names an orchestration before the orchestration acts.
    """
    if before is None or now is None:
        return before is now
    return is_settled(now) and (before.orchestration, before.state) == (now.orchestration, now.state)


def driver_verdicts(instance: InstanceRecord | None, observation: Observation) -> Verdicts:
    """Returns the verdicts on a settled instance.

    A `failed` record that holds its names is no drift: the state already says that remains may exist.
    """
    verdicts = dict.fromkeys(DRIVER_KINDS, "")
    seen = f"{observation.state}. {observation.detail}".strip()
    if is_unwanted(instance):
        if observation.state != "absent":
            why = (
                f"its record says {instance.state}"
                if instance
                else "it has no record, so it may belong to another control plane"
            )
            verdicts["orphan"] = f"The instance exists, but {why}: it is {seen}"
    elif instance is not None and instance.state in ("running", "stopped"):
        if observation.state == "absent":
            verdicts["vanished"] = (
                f"The record says {instance.state}, but nothing of the instance exists. {observation.detail}".strip()
            )
        elif observation.state in _WRONG[instance.state]:
            verdicts["wrong_state"] = f"The record says {instance.state}, but the instance is {seen}"
    return verdicts


def dns_verdicts(instance: InstanceRecord, published: Published) -> Verdicts:
    """Returns the verdict on the DNS name. `published` are the records under it."""
    host = str(instance.host)
    if published.owner is None and not published.targets:
        return {"dns": f"{instance.dns_name} is not published, and should lead to {host}."}
    if published.owner != instance.id:
        reason = (
            f"belongs to the instance {published.owner}" if published.owner else "has records that are not Interlock's"
        )
        return {"dns": f"{instance.dns_name} {reason}, and should lead to {host}."}
    if [_normalized(target) for target in published.targets] != [_normalized(host)]:
        targets = ", ".join(published.targets) or "nothing"
        return {"dns": f"{instance.dns_name} leads to {targets}, and should lead to {host}."}
    return {"dns": ""}


def confirmed(first: Verdicts, again: Verdicts) -> Verdicts:
    """Returns the drift that was observed twice.

    Drift that only the second observation shows is left out, because it may soon end by itself.
    """
    return {kind: detail for kind, detail in again.items() if not detail or first.get(kind)}


def _normalized(target: str) -> str:
    """Returns the target in one spelling."""
    try:
        return str(ip_address(target))
    except ValueError:
        return target.lower().removesuffix(".")
