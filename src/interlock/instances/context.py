"""The context of instances: the database of records, drivers, DNS, the settings of backups, and timing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from interlock.aggregate.transactions import Transactions
from interlock.dns import Dns
from interlock.durable.declarations import Retry
from interlock.errors import ConfigurationError
from interlock.instances.backups.model import BackupSettings
from interlock.instances.drivers.port import Driver


@dataclass(frozen=True)
class InstanceTiming:
    """Durations in seconds. A requested state has to be observed within `timeout`."""

    timeout: float = 600.0
    check_every: float = 30.0
    unhealthy_after: int = 3
    """The number of consecutive failed checks after which an instance is unhealthy."""
    check_timeout: float = 10.0
    retry: Retry = field(default_factory=lambda: Retry(attempts=6, first=0.5, longest=15.0))

    def __post_init__(self) -> None:
        if not (self.timeout > 0 and self.check_every > 0 and self.check_timeout > 0 and self.unhealthy_after >= 1):
            raise ConfigurationError(f"{self!r} cannot work: use times above 0 s, and a count of at least 1.")


@dataclass(frozen=True)
class InstanceContext:
    transactions: Transactions
    schema: str
    drivers: Mapping[str, Driver]
    dns: Dns
    timing: InstanceTiming = field(default_factory=InstanceTiming)
    backups: BackupSettings | None = None

    @property
    def backup_settings(self) -> BackupSettings:
        if self.backups is None:
            raise ConfigurationError("There is no directory for backups: set backup_dir.")
        return self.backups

    def driver(self, name: str) -> Driver:
        if found := self.drivers.get(name):
            return found
        known = ", ".join(sorted(self.drivers)) or "none"
        raise ConfigurationError(f"There is no driver {name!r}: use one of these ({known}).")
