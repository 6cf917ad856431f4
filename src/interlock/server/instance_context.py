"""The context of instances, built from the settings: drivers, DNS, health checks, backups and upkeep."""

from interlock.aggregate.transactions import Transactions
from interlock.config import Settings
from interlock.dns import NoDns, dns_from_url
from interlock.errors import BadSpec, ConfigurationError
from interlock.instances.backups.model import BackupSettings
from interlock.instances.context import InstanceContext, InstanceTiming
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Driver
from interlock.instances.upkeep.schedule import UpkeepSchedule

_DAY = 86400.0


def instance_context(settings: Settings, transactions: Transactions) -> InstanceContext:
    """Raises ConfigurationError if a setting cannot be used. Changes nothing on the machine or in the database."""
    makers = {"local": _local, "kubernetes": _kubernetes}
    drivers = {name: makers[name](settings) for name in settings.driver_names}
    timing = InstanceTiming(check_every=settings.health_interval, unhealthy_after=settings.health_failures)
    backups = BackupSettings(settings.backup_directory, settings.backup_keep, settings.backup_days, settings.pg_bin)
    return InstanceContext(transactions, settings.schema, drivers, dns_from_url(settings.dns), timing, backups)


def upkeep_schedule(settings: Settings) -> UpkeepSchedule:
    return UpkeepSchedule(
        drift_every=settings.drift_interval,
        drift_repair=settings.drift_repair == "on",
        events_kept=settings.events_kept * _DAY,
        checks_kept=settings.checks_kept * _DAY,
    )


def _local(settings: Settings) -> Driver:
    try:
        driver = LocalDriver(
            settings.data_dir.absolute() / "instances",
            ports=settings.port_range,
            pg_bin=settings.pg_bin,
            run_as=settings.pg_user,
            defaults=settings.default_parameters,
            limit=settings.instance_limit,
        )
        driver.check_defaults()
    except BadSpec as error:
        raise ConfigurationError(f"instance_defaults is {settings.instance_defaults!r}: {error}") from error
    return driver


def _kubernetes(settings: Settings) -> Driver:
    try:
        from interlock.instances.drivers.kubernetes import KubernetesDriver, KubernetesSettings
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"The driver kubernetes needs packages that are not installed ({error.name}): "
            "run `pip install 'interlock[kubernetes]'`, or remove kubernetes from the setting drivers."
        ) from error
    return KubernetesDriver(
        KubernetesSettings(
            kubeconfig=str(settings.kubeconfig) if settings.kubeconfig else None,
            context=settings.kubernetes_context,
            namespace=settings.kubernetes_namespace,
            image=settings.kubernetes_image,
            storage_class=settings.kubernetes_storage_class,
            service_type=settings.kubernetes_service_type,  # type: ignore[arg-type] # checked by the settings
            external_dns=isinstance(dns_from_url(settings.dns), NoDns),
        )
    )
