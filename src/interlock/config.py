"""The settings: one frozen object, from flags, environment, a TOML file and defaults, in this order of precedence.

A setting has the same name everywhere: `gate_ttl` in Python and in the file, ``INTERLOCK_GATE_TTL`` in the environment,
``--gate-ttl`` for commands that have a flag for it.
"""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self, get_args

from interlock.errors import ConfigurationError
from interlock.logs import LogFormat

_PREFIX = "INTERLOCK_"
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_DRIVERS = ("local", "kubernetes")
_SERVICE_TYPES = ("LoadBalancer", "ClusterIP")
_PORTS = re.compile(r"[0-9]{1,5}-[0-9]{1,5}")
_SECRET = ("database_url", "api_key", "dns")


def _default_data_dir() -> Path:
    """Returns ``interlock`` in the user's data home, usually ``~/.local/share``; for root, ``/var/lib/interlock``.

    The reason: PostgreSQL cannot run as root, and the user that runs it may not enter root's home directory. For a
    user without a home directory, as in containers, the result is ``/var/lib/interlock`` too.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/interlock")
    try:
        return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "interlock"
    except RuntimeError:
        return Path("/var/lib/interlock")


def _setting(about: str, **options: Any) -> Any:
    return field(metadata={"about": about}, **options)


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """All settings. `load` reads them from their sources; the constructor checks that they fit together."""

    database_url: str | None = _setting(
        "The database: postgresql://user:password@host:5432/name; for leases also sqlite:///file.db or "
        "dynamodb://table. Default: the database that `interlock up` runs.",
        default=None,
        repr=False,
    )
    schema: str = _setting("The schema that holds Interlock's own tables.", default="interlock")
    data_dir: Path = _setting(
        "The directory where `interlock up` keeps its database, instances and a key to its API. Default: "
        "~/.local/share/interlock, for root /var/lib/interlock.",
        default_factory=_default_data_dir,
    )
    host: str = _setting("The address that the control plane listens on.", default="127.0.0.1")
    port: int = _setting("The port that the control plane listens on; 0 means any free port.", default=8080)
    server: str | None = _setting(
        "The control plane that commands talk to: https://host. Default: the control plane that runs on the data "
        "directory.",
        default=None,
    )
    api_key: str | None = _setting(
        "The API key that commands send to the control plane. Default: the key in the data directory, if the control "
        "plane runs on that directory.",
        default=None,
        repr=False,
    )
    pg_bin: Path | None = _setting(
        "The directory with PostgreSQL's programs, for the database that `interlock up` runs.", default=None
    )
    pg_user: str | None = _setting(
        "The system user that runs the database of `interlock up` when root starts it. Default: postgres, else nobody.",
        default=None,
    )
    driver: str | None = _setting(
        "The driver of instances whose request names no driver. Default: the first of `drivers`.", default=None
    )
    drivers: str = _setting(
        "The enabled drivers of instances, separated by commas: local, kubernetes.", default="local"
    )
    instance_ports: str = _setting(
        "The first and the last port that instances of the driver local listen on.", default="15432-16431"
    )
    instance_limit: int | None = _setting(
        "The maximum number of instances of the driver local. Default: the number of ports.", default=None
    )
    instance_defaults: str = _setting(
        "Default PostgreSQL parameters of instances of the driver local, such as "
        "shared_buffers=64MB,max_connections=100.",
        default="max_connections=50,shared_buffers=32MB,max_wal_size=256MB",
    )
    dns: str = _setting(
        "The publisher of the instances' DNS names: none:, or rfc2136://server/zone?key=NAME&secret-file=PATH.",
        default="none:",
        repr=False,
    )
    kubeconfig: Path | None = _setting(
        "The kubeconfig file. Default: the pod's own account, else KUBECONFIG, else ~/.kube/config.", default=None
    )
    kubernetes_context: str | None = _setting(
        "A context of the kubeconfig. Default: the current context.", default=None
    )
    kubernetes_namespace: str | None = _setting(
        "The namespace of instances on Kubernetes. Default: the namespace of the context, or of the pod.", default=None
    )
    kubernetes_image: str = _setting(
        "The image of instances on Kubernetes; {version} is the major version.",
        default="docker.io/library/postgres:{version}",
    )
    kubernetes_storage_class: str | None = _setting(
        "The storage class of volumes of instances on Kubernetes. Default: the cluster's default.", default=None
    )
    kubernetes_service_type: str = _setting(
        "The type of the Services of instances on Kubernetes: LoadBalancer or ClusterIP.", default="LoadBalancer"
    )
    health_interval: float = _setting("Seconds between two health checks of an instance.", default=30.0)
    health_failures: int = _setting(
        "The number of failed health checks in a row after which an instance counts as unhealthy.", default=3
    )
    backup_dir: Path | None = _setting(
        "The directory for backups of instances, shared by all replicas. Default: backups in the data directory.",
        default=None,
    )
    backup_keep: int = _setting("The number of newest backups kept per instance; 0 keeps all backups.", default=0)
    backup_days: float = _setting(
        "Days after which a backup is removed, unless it is the newest of its instance; 0 means never.", default=0.0
    )
    drift_interval: float = _setting(
        "Seconds between two checks for drift, which compare the records with the drivers' instances.", default=300.0
    )
    drift_repair: str = _setting("Repair drift automatically: on or off.", default="off")
    events_kept: float = _setting("Days for which events of instances, and resolved drift, are kept.", default=90.0)
    checks_kept: float = _setting("Days for which results of health checks are kept.", default=7.0)
    gate_ttl: float = _setting("Seconds after which a migrator loses the gate unless it renews the gate.", default=10.0)
    gate_check_interval: float = _setting(
        "Seconds between SIGTERM and SIGKILL for a migration that lost the gate; a successor waits twice as long.",
        default=0.5,
    )
    gate_poll: float = _setting("Average seconds between two polls of a gate that is taken.", default=0.5)
    log_format: LogFormat = _setting("The format of the log: text or json.", default="text")
    log_level: str = _setting("The lowest level that is logged: debug, info, warning or error.", default="info")

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigurationError(f"port is {self.port}: it has to be between 0 and 65535.")
        if self.log_format not in get_args(LogFormat):
            raise ConfigurationError(f"log_format is {self.log_format!r}: use text or json.")
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise ConfigurationError(f"log_level is {self.log_level!r}: use debug, info, warning or error.")
        for name in ("gate_ttl", "gate_check_interval", "gate_poll", "health_interval", "drift_interval"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigurationError(f"{name} is {getattr(self, name):g}: it has to be {_KINDS[float]} above 0.")
        check_schema_name(self.schema)
        self._check_instances()
        if self.gate_ttl < 4 * self.gate_check_interval or self.gate_ttl < self.gate_poll:
            raise ConfigurationError(
                f"gate_ttl ({self.gate_ttl:g} s), gate_check_interval ({self.gate_check_interval:g} s) and gate_poll "
                f"({self.gate_poll:g} s) do not fit together: gate_ttl has to be at least four times "
                "gate_check_interval, and not less than gate_poll."
            )

    @property
    def driver_names(self) -> tuple[str, ...]:
        """The enabled drivers, in the order in which the setting names them."""
        return tuple(dict.fromkeys(name.strip() for name in self.drivers.split(",") if name.strip()))

    @property
    def default_driver(self) -> str:
        return self.driver or self.driver_names[0]

    @property
    def backup_directory(self) -> Path:
        return (self.backup_dir or self.data_dir / "backups").absolute()

    @property
    def port_range(self) -> range:
        """The ports for instances of the driver local."""
        first, last = map(int, self.instance_ports.split("-"))
        return range(first, last + 1)

    @property
    def default_parameters(self) -> dict[str, str]:
        """The default PostgreSQL parameters of instances of the driver local."""
        pairs = (each.partition("=") for each in self.instance_defaults.split(",") if each.strip())
        return {name.strip(): value.strip() for name, _, value in pairs}

    def _check_instances(self) -> None:
        if not self.driver_names or not set(self.driver_names) <= set(_DRIVERS):
            raise ConfigurationError(f"drivers is {self.drivers!r}: use one or more of {', '.join(_DRIVERS)}.")
        if self.default_driver not in self.driver_names:
            raise ConfigurationError(f"driver is {self.driver!r}, which is not enabled: use one of {self.drivers}.")
        if not _PORTS.fullmatch(self.instance_ports) or not 0 < self.port_range.start < self.port_range.stop <= 65536:
            raise ConfigurationError(
                f"instance_ports is {self.instance_ports!r}: write the first and the last port, as in 15432-16431."
            )
        if self.instance_limit is not None and self.instance_limit < 0:
            raise ConfigurationError(f"instance_limit is {self.instance_limit}: it has to be 0 or more.")
        if not all("=" in each for each in self.instance_defaults.split(",") if each.strip()):
            raise ConfigurationError(
                f"instance_defaults is {self.instance_defaults!r}: write name=value pairs, separated by commas."
            )
        if self.backup_keep < 0:
            raise ConfigurationError(f"backup_keep is {self.backup_keep}: it has to be 0 or more.")
        if not 0 <= self.backup_days < math.inf:
            raise ConfigurationError(f"backup_days is {self.backup_days:g}: it has to be a number of days, or 0.")
        if self.drift_repair not in ("on", "off"):
            raise ConfigurationError(f"drift_repair is {self.drift_repair!r}: use on or off.")
        for name in ("events_kept", "checks_kept"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigurationError(f"{name} is {getattr(self, name):g}: it has to be a number of days above 0.")
        if self.health_failures < 1:
            raise ConfigurationError(f"health_failures is {self.health_failures}: it has to be at least 1.")
        if self.kubernetes_service_type not in _SERVICE_TYPES:
            raise ConfigurationError(
                f"kubernetes_service_type is {self.kubernetes_service_type!r}: use {' or '.join(_SERVICE_TYPES)}."
            )

    @classmethod
    def load(
        cls,
        flags: Mapping[str, Any] | None = None,
        *,
        file: Path | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> Self:
        """A flag that is None is ignored. `file` defaults to the file that the variable INTERLOCK_CONFIG names."""
        from_flags = {name: value for name, value in (flags or {}).items() if value is not None}
        named = environ.get(f"{_PREFIX}CONFIG")
        path = file or (Path(named) if named else None)
        merged = {**(_from_file(path) if path else {}), **_from_environment(environ), **from_flags}
        return cls(**{name: _converted(name, value) for name, value in merged.items()})


def check_schema_name(name: str) -> None:
    if not _SCHEMA_NAME.fullmatch(name) or name.startswith("pg_"):
        raise ConfigurationError(
            f"{name!r} cannot be the name of Interlock's schema: "
            "use at most 63 lower-case letters, digits and underscores, and do not begin with a digit or 'pg_'."
        )


def environment_name(setting: str) -> str:
    return _PREFIX + setting.upper()


def about() -> dict[str, str]:
    """Returns the description of every setting, by the name of the setting."""
    return {setting.name: setting.metadata["about"] for setting in fields(Settings)}


def database_url(environ: Mapping[str, str] = os.environ) -> str | None:
    """Returns the database URL in the environment, which the library uses if its caller passes no URL."""
    return environ.get(environment_name("database_url")) or None


def data_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Returns the data directory of `interlock up` for the library: from the environment, else the default."""
    named = environ.get(environment_name("data_dir"))
    return _converted("data_dir", named) if named else _default_data_dir()


def own_schema(environ: Mapping[str, str] = os.environ) -> str:
    return environ.get(environment_name("schema")) or "interlock"


def _from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    names = {environment_name(name): name for name in about()}
    return {names[variable]: value for variable, value in environ.items() if variable in names and value}


def _from_file(path: Path) -> dict[str, Any]:
    import tomllib  # imported late: most commands read no file, and have to start quickly
    from difflib import get_close_matches

    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(
            f"The configuration file {path} cannot be read ({error.strerror}): name another file with --config or "
            "INTERLOCK_CONFIG."
        ) from error
    except ValueError as error:
        raise ConfigurationError(f"The configuration file {path} is not TOML ({error}): correct the file.") from error
    for name in values:
        if name not in about():
            near = get_close_matches(name, about(), n=1)
            hint = f"did you mean {near[0]}?" if near else "see docs/reference/settings.md."
            raise ConfigurationError(f"The configuration file {path} sets {name}, which is not a setting: {hint}")
    return values


def _converted(name: str, value: Any) -> Any:
    kind = _KIND_OF.get(name) or (float if name.startswith("gate_") else str)
    if (name.startswith("log_") or name == "drift_repair") and isinstance(value, str):
        value = value.lower()
    fits = isinstance(value, _GIVEN_AS[kind]) and not isinstance(value, bool)
    try:
        if fits:
            return Path(value).expanduser() if kind is Path else kind(value)
    except (ValueError, RuntimeError):  # RuntimeError: ~name of an unknown user
        pass
    shown = type(value).__name__ if name in _SECRET else repr(value)
    raise ConfigurationError(f"{name} is {shown}: it has to be {_KINDS[kind]}.")


_KIND_OF: dict[str, type] = {
    "data_dir": Path,
    "pg_bin": Path,
    "kubeconfig": Path,
    "port": int,
    "instance_limit": int,
    "health_failures": int,
    "backup_dir": Path,
    "backup_keep": int,
    "backup_days": float,
    "health_interval": float,
    "drift_interval": float,
    "events_kept": float,
    "checks_kept": float,
}
# Text is converted, because an environment has nothing else; other types of the file have to fit as they are.
_GIVEN_AS: dict[type, tuple[type, ...]] = {int: (int, str), float: (int, float, str), Path: (Path, str), str: (str,)}
_KINDS: dict[type, str] = {int: "a whole number", float: "a number of seconds", Path: "a path", str: "text"}
