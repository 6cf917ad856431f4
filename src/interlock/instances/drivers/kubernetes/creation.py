"""The creation of an instance, or its confirmation. Each step may be repeated."""

from typing import Any

from lightkube.resources.apps_v1 import StatefulSet
from lightkube.resources.core_v1 import ConfigMap, PersistentVolumeClaim, Secret, Service
from lightkube.resources.policy_v1 import PodDisruptionBudget
from lightkube.utils.quantity import parse_quantity

from interlock.errors import BadSpec
from interlock.instances.drivers.kubernetes import credentials, objects, postgresql_conf
from interlock.instances.drivers.kubernetes.api import Api
from interlock.instances.drivers.kubernetes.inventory import Inventory, required
from interlock.instances.drivers.kubernetes.names import NAME, ObjectNames, annotations, ownership
from interlock.instances.drivers.kubernetes.settings import KubernetesSettings
from interlock.instances.drivers.owner import check_name, new_password
from interlock.instances.drivers.port import Spec


def check(spec: Spec, settings: KubernetesSettings) -> None:
    """Check the spec, as far as this needs no request to the API server."""
    ObjectNames(spec.id)
    check_name(spec.name)
    postgresql_conf.check(spec.parameters)
    if spec.version is not None and spec.version not in settings.versions:
        raise BadSpec(f"There is no image of PostgreSQL {spec.version}: use one of {', '.join(settings.versions)}.")
    if spec.storage_bytes is not None and spec.storage_bytes <= 0:
        raise BadSpec(f"A volume of {spec.storage_bytes} bytes cannot be made: ask for more than 0.")


async def existing_objects(api: Api, spec: Spec, settings: KubernetesSettings) -> Inventory:
    """Returns the existing objects of the instance. Raises if an object is foreign, or has another name or version."""
    existing = await Inventory.by_name(api, ObjectNames(spec.id), adopt=settings.adopt)
    for resource in existing.resources:
        name = (resource.metadata.annotations or {}).get(NAME, spec.name)
        if name != spec.name:
            raise BadSpec(
                f"The Kubernetes objects of instance id {spec.id} belong to an instance named {name!r}, not "
                f"{spec.name!r}: use another id."
            )
    version = _version(existing)
    if version is not None and spec.version not in (None, version):
        raise BadSpec(
            f"Instance {spec.id} is of version {version}, and cannot become version {spec.version}: "
            "back it up, and restore the backup into a new instance."
        )
    return existing


async def provision(api: Api, spec: Spec, settings: KubernetesSettings) -> None:
    """Create or confirm all objects. The StatefulSet is last, so that everything that its pod needs exists before."""
    names, existing = ObjectNames(spec.id), await existing_objects(api, spec, settings)
    contents = postgresql_conf.files(spec.parameters)
    await ensure_secret(api, spec, existing.get(Secret))
    await _take(api, spec, existing.get(PersistentVolumeClaim, names.claim))
    await api.ensure(objects.config_map(spec, contents), existing.get(ConfigMap))
    await api.ensure(objects.headless(spec), existing.get(Service, names.headless))
    await api.ensure(objects.service(spec, settings), existing.get(Service))
    await api.ensure(objects.budget(spec), existing.get(PodDisruptionBudget))
    wanted = objects.stateful_set(
        spec,
        settings,
        # An existing instance keeps its version: a newer one would not start on its data.
        version=_version(existing) or spec.version or settings.versions[-1],
        template_bytes=_template_bytes(existing) or spec.storage_bytes or settings.storage_bytes,
        configured=postgresql_conf.digest(contents),
    )
    await api.ensure(wanted, existing.get(StatefulSet))


async def ensure_secret(api: Api, spec: Spec, existing: Any | None) -> None:
    """Create the Secret, or add its missing entries. Existing entries stay."""
    base = ObjectNames(spec.id).base
    hosts = [base, f"{base}.{api.namespace}", f"{base}.{api.namespace}.svc", *filter(None, [spec.dns_name])]
    known = None if existing is None else credentials.entry(existing, credentials.PASSWORD)
    contents = credentials.contents(spec.name, known or new_password(), hosts)
    if existing is None:
        if await api.create(objects.secret(spec, contents)) is None:
            await required(
                api, Secret, spec.id
            )  # it is this instance's, made by another replica; otherwise this raises
        return
    if missing := credentials.missing(existing.data or {}, contents):
        await api.change(existing, {"data": missing})
    await _take(api, spec, existing)


async def _take(api: Api, spec: Spec, existing: Any | None) -> None:
    """Adopt an object without a change of its contents: only its labels and annotations are written."""
    if existing is not None and ownership(existing, spec.id) != "own":
        metadata = {"labels": ObjectNames(spec.id).labels, "annotations": annotations(spec)}
        await api.change(existing, {"metadata": metadata})


def _version(existing: Inventory) -> str | None:
    stateful_set = existing.get(StatefulSet)
    labels = stateful_set.metadata.labels if stateful_set is not None else None
    return (labels or {}).get(objects.VERSION)


def _template_bytes(existing: Inventory) -> int | None:
    stateful_set = existing.get(StatefulSet)
    templates = stateful_set.spec.volumeClaimTemplates if stateful_set is not None else None
    size = parse_quantity(templates[0].spec.resources.requests["storage"]) if templates else None
    return int(size) if size is not None else None
