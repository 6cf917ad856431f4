"""What a record wants beside what there is: where the two differ, and how. Pure."""

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
"""By kind, in a sentence how it has drifted; empty: it has not. What is left out could not be told."""

_WRONG: Mapping[str, tuple[Observed, ...]] = {"running": ("stopped", "broken"), "stopped": ("running", "broken")}


def is_settled(instance: InstanceRecord | None) -> bool:
    """Whether the record says how things are to be; what is worked on is on its way."""
    return instance is None or not instance.working


def is_unwanted(instance: InstanceRecord | None) -> bool:
    """No record knows it, or everything of it was seen to be gone once: then its names were freed."""
    return instance is None or instance.names_freed_at is not None


def is_untouched(before: InstanceRecord | None, now: InstanceRecord | None) -> bool:
    """Whether nobody has worked on it in between: each who does is named in the record before anything is done."""
    if before is None or now is None:
        return before is now
    return is_settled(now) and (before.orchestration, before.state) == (now.orchestration, now.state)


def driver_verdicts(instance: InstanceRecord | None, observation: Observation) -> Verdicts:
    """Of what is settled. A record that says `failed` and holds its names tells already that something may be left."""
    verdicts = dict.fromkeys(DRIVER_KINDS, "")
    seen = f"{observation.state}. {observation.detail}".strip()
    if is_unwanted(instance):
        if observation.state != "absent":
            why = f"its record says {instance.state}" if instance else "no record knows it, so it may be another's"
            verdicts["orphan"] = f"It is there, and {why}: it is {seen}"
    elif instance is not None and instance.state in ("running", "stopped"):
        if observation.state == "absent":
            verdicts["vanished"] = (
                f"Its record says {instance.state}, and nothing of it is there. {observation.detail}".strip()
            )
        elif observation.state in _WRONG[instance.state]:
            verdicts["wrong_state"] = f"Its record says {instance.state}, and it is {seen}"
    return verdicts


def dns_verdicts(instance: InstanceRecord, seen: Published) -> Verdicts:
    """`seen` is what there is under its DNS name."""
    host = str(instance.host)
    if seen.owner is None and not seen.targets:
        return {"dns": f"{instance.dns_name} is not published, and should lead to {host}."}
    if seen.owner != instance.id:
        whose = f"belongs to the instance {seen.owner}" if seen.owner else "has records that are not Interlock's"
        return {"dns": f"{instance.dns_name} {whose}, and should lead to {host}."}
    if [_normalized(target) for target in seen.targets] != [_normalized(host)]:
        led = ", ".join(seen.targets) or "nothing"
        return {"dns": f"{instance.dns_name} leads to {led}, and should lead to {host}."}
    return {"dns": ""}


def confirmed(first: Verdicts, again: Verdicts) -> Verdicts:
    """What was seen twice. What was seen only the second time is left open: it may be gone in a moment."""
    return {kind: detail for kind, detail in again.items() if not detail or first.get(kind)}


def _normalized(target: str) -> str:
    """One way of writing it."""
    try:
        return str(ip_address(target))
    except ValueError:
        return target.lower().removesuffix(".")
