"""The definitions of an instance's objects, as they are applied. Pure functions."""

from collections.abc import Mapping
from typing import Any

from lightkube.models.apps_v1 import (
    StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetSpec,
    StatefulSetUpdateStrategy,
)
from lightkube.models.core_v1 import (
    Capabilities,
    ConfigMapVolumeSource,
    Container,
    ContainerPort,
    EmptyDirVolumeSource,
    EnvVar,
    ExecAction,
    PersistentVolumeClaimSpec,
    PodSecurityContext,
    PodSpec,
    PodTemplateSpec,
    Probe,
    ResourceRequirements,
    SeccompProfile,
    SecretVolumeSource,
    SecurityContext,
    ServicePort,
    ServiceSpec,
    Volume,
    VolumeMount,
    VolumeResourceRequirements,
)
from lightkube.models.core_v1 import PersistentVolumeClaim as ClaimTemplate
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta
from lightkube.models.policy_v1 import PodDisruptionBudgetSpec
from lightkube.resources.apps_v1 import StatefulSet
from lightkube.resources.core_v1 import ConfigMap, Secret, Service
from lightkube.resources.policy_v1 import PodDisruptionBudget

from interlock.instances.drivers.kubernetes import postgresql_conf
from interlock.instances.drivers.kubernetes.credentials import FIRST_START, PASSWORD, SUPERUSER
from interlock.instances.drivers.kubernetes.names import (
    CONFIGURATION,
    CONTAINER,
    VOLUME,
    ObjectNames,
    annotations,
    external_dns_annotations,
)
from interlock.instances.drivers.kubernetes.settings import KubernetesSettings
from interlock.instances.drivers.port import Spec

PORT = 5432
VERSION = "app.kubernetes.io/version"
_SOCKETS = "/var/run/postgresql"


def secret(spec: Spec, contents: Mapping[str, str]) -> Secret:
    return Secret(metadata=_meta(spec), type="Opaque", data=dict(contents))


def config_map(spec: Spec, contents: Mapping[str, str]) -> ConfigMap:
    return ConfigMap(metadata=_meta(spec), data=dict(contents))


def headless(spec: Spec) -> Service:
    """Returns the Service that gives the pod its name in the cluster, which a StatefulSet requires.

    The pod has its name before it is ready.
    """
    names = ObjectNames(spec.id)
    return Service(
        metadata=_meta(spec, name=names.headless),
        spec=ServiceSpec(
            clusterIP="None", publishNotReadyAddresses=True, selector=names.labels, ports=[_service_port()]
        ),
    )


def service(spec: Spec, settings: KubernetesSettings) -> Service:
    """Returns the Service that clients connect to. external-dns publishes the name in its annotation."""
    published = external_dns_annotations(spec.dns_name) if spec.dns_name and settings.external_dns else {}
    extra = dict(settings.service_annotations) | published
    return Service(
        metadata=_meta(spec, extra=extra),
        spec=ServiceSpec(type=settings.service_type, selector=ObjectNames(spec.id).labels, ports=[_service_port()]),
    )


def budget(spec: Spec) -> PodDisruptionBudget:
    """Returns a budget that blocks the drain of a node with a running database: the database has to be stopped
    first.
    """
    return PodDisruptionBudget(
        metadata=_meta(spec),
        spec=PodDisruptionBudgetSpec(maxUnavailable=0, selector=LabelSelector(matchLabels=ObjectNames(spec.id).labels)),
    )


def stateful_set(
    spec: Spec, settings: KubernetesSettings, *, version: str, template_bytes: int, configured: str
) -> StatefulSet:
    """Returns the StatefulSet.

    `template_bytes` cannot change later: a grown volume has a larger claim, but the same template.
    """
    names = ObjectNames(spec.id)
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=names.labels, annotations=annotations(spec) | {CONFIGURATION: configured}),
        spec=_pod(names, settings, version),
    )
    return StatefulSet(
        metadata=_meta(spec, labels={VERSION: version}),
        spec=StatefulSetSpec(
            replicas=1,
            serviceName=names.headless,
            selector=LabelSelector(matchLabels=names.labels),
            template=template,
            # A changed template takes effect at the next start: a database is restarted only on request.
            updateStrategy=StatefulSetUpdateStrategy(type="OnDelete"),
            persistentVolumeClaimRetentionPolicy=StatefulSetPersistentVolumeClaimRetentionPolicy(
                whenDeleted="Delete", whenScaled="Retain"
            ),
            volumeClaimTemplates=[_claim_template(spec, settings, template_bytes)],
        ),
    )


def _meta(
    spec: Spec,
    *,
    name: str | None = None,
    labels: Mapping[str, str] | None = None,
    extra: Mapping[str, str] | None = None,
) -> ObjectMeta:
    names = ObjectNames(spec.id)
    return ObjectMeta(
        name=name or names.base,
        labels=names.labels | dict(labels or {}),
        annotations=annotations(spec) | dict(extra or {}),
    )


def _service_port() -> ServicePort:
    return ServicePort(name="postgresql", port=PORT, protocol="TCP", targetPort=PORT)


def _claim_template(spec: Spec, settings: KubernetesSettings, size: int) -> ClaimTemplate:
    return ClaimTemplate(
        metadata=ObjectMeta(name=VOLUME, labels=ObjectNames(spec.id).labels, annotations=annotations(spec)),
        spec=PersistentVolumeClaimSpec(
            accessModes=["ReadWriteOnce"],
            storageClassName=settings.storage_class,
            resources=VolumeResourceRequirements(requests={"storage": str(size)}),
        ),
    )


def _pod(names: ObjectNames, settings: KubernetesSettings, version: str) -> PodSpec:
    return PodSpec(
        automountServiceAccountToken=False,
        enableServiceLinks=False,
        terminationGracePeriodSeconds=120,
        securityContext=PodSecurityContext(
            runAsNonRoot=True,
            runAsUser=settings.user_id,
            runAsGroup=settings.user_id,
            fsGroup=settings.user_id,
            fsGroupChangePolicy="OnRootMismatch",
            seccompProfile=SeccompProfile(type="RuntimeDefault"),
        ),
        containers=[_container(settings, version)],
        volumes=[
            Volume(name="configuration", configMap=ConfigMapVolumeSource(name=names.base)),
            # PostgreSQL accepts a key that belongs to root if only root and a group can read it.
            Volume(name="secret", secret=SecretVolumeSource(secretName=names.base, defaultMode=0o440)),
            Volume(name="sockets", emptyDir=EmptyDirVolumeSource()),
            Volume(name="tmp", emptyDir=EmptyDirVolumeSource()),
            Volume(name="shm", emptyDir=EmptyDirVolumeSource(medium="Memory")),
        ],
    )


def _container(settings: KubernetesSettings, version: str) -> Container:
    return Container(
        name=CONTAINER,
        image=settings.image.format(version=version),
        args=["-c", f"config_file={postgresql_conf.CONFIGURATION_DIR}/{postgresql_conf.CONF}"],
        env=[
            EnvVar(name="PGDATA", value=postgresql_conf.DATA_DIR),
            EnvVar(name="POSTGRES_USER", value=SUPERUSER),
            EnvVar(name="POSTGRES_PASSWORD_FILE", value=f"{postgresql_conf.SECRET_DIR}/{PASSWORD}"),
        ],
        ports=[ContainerPort(name="postgresql", containerPort=PORT, protocol="TCP")],
        resources=_resources(settings),
        securityContext=SecurityContext(
            allowPrivilegeEscalation=False, readOnlyRootFilesystem=True, capabilities=Capabilities(drop=["ALL"])
        ),
        startupProbe=_probe(periodSeconds=5, failureThreshold=120),
        readinessProbe=_probe(periodSeconds=5, failureThreshold=3),
        livenessProbe=_probe(periodSeconds=10, failureThreshold=6),
        volumeMounts=[
            VolumeMount(name=VOLUME, mountPath="/interlock/data"),
            VolumeMount(name="configuration", mountPath=postgresql_conf.CONFIGURATION_DIR, readOnly=True),
            VolumeMount(name="secret", mountPath=postgresql_conf.SECRET_DIR, readOnly=True),
            VolumeMount(
                name="secret",
                mountPath=f"/docker-entrypoint-initdb.d/{FIRST_START}",
                subPath=FIRST_START,
                readOnly=True,
            ),
            VolumeMount(name="sockets", mountPath=_SOCKETS),
            VolumeMount(name="tmp", mountPath="/tmp"),  # noqa: S108 # inside the container
            VolumeMount(name="shm", mountPath="/dev/shm"),  # noqa: S108 # inside the container
        ],
    )


def _resources(settings: KubernetesSettings) -> ResourceRequirements:
    requests = {"cpu": settings.cpu, "memory": settings.memory}
    wanted = {name: value for name, value in requests.items() if value is not None}
    limits = {"memory": settings.memory} if settings.memory is not None else None
    return ResourceRequirements(requests=wanted or None, limits=limits)


def _probe(**timing: Any) -> Probe:
    """Probe by TCP, because the image's server for a new cluster listens on its socket only."""
    command = ["pg_isready", "--quiet", "--host=127.0.0.1", f"--port={PORT}", f"--username={SUPERUSER}"]
    return Probe(exec=ExecAction(command=command), timeoutSeconds=5, **timing)
