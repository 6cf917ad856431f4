"""The sources of a setting and their precedence, and the errors for values that cannot work."""

from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest

from interlock import config
from interlock.config import Settings
from interlock.errors import ConfigurationError
from interlock.instances.drivers.local.parameters import DEFAULTS

# For every setting: as a flag, in the environment and in the file, each time another value, and what they come to.
EVERYWHERE: dict[str, tuple[Any, str, str, tuple[Any, Any, Any]]] = {
    "database_url": (
        "postgresql://a",
        "postgresql://b",
        '"postgresql://c"',
        ("postgresql://a", "postgresql://b", "postgresql://c"),
    ),
    "schema": ("a", "b", '"c"', ("a", "b", "c")),
    "data_dir": ("/a", "/b", '"/c"', (Path("/a"), Path("/b"), Path("/c"))),
    "host": ("::1", "0.0.0.0", '"localhost"', ("::1", "0.0.0.0", "localhost")),  # noqa: S104
    "port": ("1", "2", "3", (1, 2, 3)),
    "server": ("http://a", "http://b", '"http://c"', ("http://a", "http://b", "http://c")),
    "api_key": ("a", "b", '"c"', ("a", "b", "c")),
    "pg_bin": ("/a", "/b", '"/c"', (Path("/a"), Path("/b"), Path("/c"))),
    "pg_user": ("a", "b", '"c"', ("a", "b", "c")),
    "driver": ("local", "local", '"local"', ("local", "local", "local")),
    "drivers": ("local", "kubernetes", '"local, kubernetes"', ("local", "kubernetes", "local, kubernetes")),
    "instance_ports": ("1-2", "2-3", '"3-4"', ("1-2", "2-3", "3-4")),
    "instance_limit": (1, "2", "3", (1, 2, 3)),
    "instance_defaults": ("a=1", "b=2", '"c=3"', ("a=1", "b=2", "c=3")),
    "dns": ("none:", "rfc2136://a/b", '"rfc2136://c/d"', ("none:", "rfc2136://a/b", "rfc2136://c/d")),
    "kubeconfig": ("/a", "/b", '"/c"', (Path("/a"), Path("/b"), Path("/c"))),
    "kubernetes_context": ("a", "b", '"c"', ("a", "b", "c")),
    "kubernetes_namespace": ("a", "b", '"c"', ("a", "b", "c")),
    "kubernetes_image": ("a", "b", '"c"', ("a", "b", "c")),
    "kubernetes_storage_class": ("a", "b", '"c"', ("a", "b", "c")),
    "kubernetes_service_type": (
        "ClusterIP",
        "LoadBalancer",
        '"ClusterIP"',
        ("ClusterIP", "LoadBalancer", "ClusterIP"),
    ),
    "health_interval": (1.5, "2", "3", (1.5, 2.0, 3.0)),
    "health_failures": (1, "2", "3", (1, 2, 3)),
    "backup_dir": (Path("/a"), "/b", '"/c"', (Path("/a"), Path("/b"), Path("/c"))),
    "backup_keep": (1, "2", "3", (1, 2, 3)),
    "backup_days": (0.5, "2", "3", (0.5, 2.0, 3.0)),
    "drift_interval": (1.5, "2", "3", (1.5, 2.0, 3.0)),
    "drift_repair": ("on", "OFF", '"on"', ("on", "off", "on")),
    "events_kept": (1.5, "2", "3", (1.5, 2.0, 3.0)),
    "checks_kept": (1.5, "2", "3", (1.5, 2.0, 3.0)),
    "gate_ttl": (20.5, "30", "40", (20.5, 30.0, 40.0)),
    "gate_check_interval": (0.1, "0.2", "0.3", (0.1, 0.2, 0.3)),
    "gate_poll": (1, "2", "3.5", (1.0, 2.0, 3.5)),
    "log_format": ("json", "text", '"json"', ("json", "text", "json")),
    "log_level": ("debug", "warning", '"error"', ("debug", "warning", "error")),
}


def written(directory: Path, text: str) -> Path:
    file = directory / "interlock.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_every_setting_is_tested_here() -> None:
    assert EVERYWHERE.keys() == {setting.name for setting in fields(Settings)}


@pytest.mark.parametrize("name", EVERYWHERE)
def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default(name: str, tmp_path: Path) -> None:
    flag, variable, entry, (by_flag, by_environment, by_file) = EVERYWHERE[name]
    file = written(tmp_path, f"{name} = {entry}")
    environ = {config.environment_name(name): variable}

    assert getattr(Settings.load({name: flag}, file=file, environ=environ), name) == by_flag
    assert getattr(Settings.load({name: None}, file=file, environ=environ), name) == by_environment
    assert getattr(Settings.load(file=file, environ={}), name) == by_file
    assert getattr(Settings.load(environ={}), name) == getattr(Settings(), name)


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    file = written(tmp_path, "port = 9000")
    assert Settings.load(file=file, environ={"INTERLOCK_PORT": ""}).port == 9000


def test_the_environment_names_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, 'schema = "coordination"')
    assert Settings.load(environ={"INTERLOCK_CONFIG": str(file)}).schema == "coordination"


def test_an_explicit_file_beats_the_one_that_the_environment_names(tmp_path: Path) -> None:
    file = written(tmp_path, 'schema = "coordination"')
    assert Settings.load(file=file, environ={"INTERLOCK_CONFIG": "/nowhere"}).schema == "coordination"


def test_a_tilde_is_expanded_to_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/shop")
    assert Settings.load({"data_dir": "~/data"}, environ={}).data_dir == Path("/home/shop/data")


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("port", "http", "a whole number"),
        ("port", 80.5, "a whole number"),
        ("port", True, "a whole number"),
        ("gate_ttl", "ten", "a number of seconds"),
        ("gate_poll", [1], "a number of seconds"),
        ("data_dir", 5, "a path"),
        ("pg_bin", "~no-such-user/bin", "a path"),
        ("schema", 5, "text"),
    ],
)
def test_the_error_for_a_value_of_the_wrong_type_names_its_setting(name: str, value: Any, wanted: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        Settings.load({name: value}, environ={})
    assert str(refusal.value) == f"{name} is {value!r}: it has to be {wanted}."


@pytest.mark.parametrize("name", ["database_url", "dns"])
def test_the_error_for_a_secret_of_the_wrong_type_does_not_contain_it(name: str, tmp_path: Path) -> None:
    file = written(tmp_path, f'{name} = ["postgresql://shop:geheim@db/shop"]')
    with pytest.raises(ConfigurationError, match=f"{name} is list") as refusal:
        Settings.load(file=file, environ={})
    assert "geheim" not in str(refusal.value)


def test_an_api_key_is_never_shown(tmp_path: Path) -> None:
    assert "geheim" not in repr(Settings(api_key="geheim"))
    with pytest.raises(ConfigurationError, match="api_key is list") as refusal:
        Settings.load(file=written(tmp_path, 'api_key = ["geheim"]'), environ={})
    assert "geheim" not in str(refusal.value)


@pytest.mark.parametrize("name", ["gate_ttl", "gate_check_interval", "gate_poll", "health_interval"])
@pytest.mark.parametrize("value", ["nan", "inf", "0", "-1"])
def test_a_value_that_is_not_a_duration_is_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name} is .*: it has to be a number of seconds above 0"):
        Settings.load({name: value}, environ={})


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"port": 65536}, "port is 65536: it has to be between 0 and 65535"),
        ({"port": -1}, "port is -1"),
        ({"log_format": "xml"}, "log_format is 'xml': use text or json"),
        ({"log_level": "loud"}, "log_level is 'loud': use debug, info, warning or error"),
        ({"drivers": "cloud"}, "drivers is 'cloud': use one or more of local, kubernetes"),
        ({"drivers": " , "}, "drivers is ' , '"),
        ({"driver": "kubernetes"}, "driver is 'kubernetes', which is not enabled: use one of local"),
        ({"instance_ports": "15432"}, "instance_ports is '15432': write the first and the last port"),
        ({"instance_ports": "0-10"}, "instance_ports is '0-10'"),
        ({"instance_ports": "20-10"}, "instance_ports is '20-10'"),
        ({"instance_ports": "1-65536"}, "instance_ports is '1-65536'"),
        ({"instance_limit": -1}, "instance_limit is -1: it has to be 0 or more"),
        ({"instance_defaults": "work_mem=4MB,jit"}, "instance_defaults is 'work_mem=4MB,jit': write name=value"),
        ({"backup_keep": -1}, "backup_keep is -1: it has to be 0 or more"),
        ({"backup_days": -1.0}, "backup_days is -1: it has to be a number of days, or 0"),
        ({"health_failures": 0}, "health_failures is 0: it has to be at least 1"),
        ({"drift_interval": 0}, "drift_interval is 0: it has to be a number of seconds above 0"),
        ({"drift_repair": "perhaps"}, "drift_repair is 'perhaps': use on or off"),
        ({"checks_kept": -1}, "checks_kept is -1: it has to be a number of days above 0"),
        ({"kubernetes_service_type": "NodePort"}, "kubernetes_service_type is 'NodePort': use LoadBalancer or"),
        ({"gate_ttl": 3, "gate_check_interval": 1}, "at least four times gate_check_interval"),
        ({"gate_ttl": 3, "gate_poll": 4}, "not less than gate_poll"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        Settings.load(settings, environ={})


@pytest.mark.parametrize(
    ("entry", "hint"),
    [("gate_tll = 5", "did you mean gate_ttl?"), ("colour = 'red'", "see docs/reference/settings.md.")],
)
def test_an_unknown_setting_is_refused_with_the_nearest_name(entry: str, hint: str, tmp_path: Path) -> None:
    file = written(tmp_path, entry)
    with pytest.raises(ConfigurationError) as refusal:
        Settings.load(file=file, environ={})
    assert str(refusal.value) == (
        f"The configuration file {file} sets {entry.partition(' ')[0]}, which is not a setting: {hint}"
    )


@pytest.mark.parametrize("content", [b"port: 80", b"schema = '\xff'"])
def test_a_file_that_is_not_toml_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "interlock.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"interlock\.toml is not TOML"):
        Settings.load(file=file, environ={})


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be read \(No such file or directory\): name another"):
        Settings.load(environ={"INTERLOCK_CONFIG": str(tmp_path / "missing.toml")})


def test_the_first_driver_is_the_default() -> None:
    both = {"drivers": "kubernetes, local"}
    assert Settings.load(both, environ={}).default_driver == "kubernetes"
    assert Settings.load(both | {"driver": "local"}, environ={}).default_driver == "local"
    assert Settings().port_range == range(15432, 16432)


def test_default_parameters_are_parsed() -> None:
    told = Settings.load({"instance_defaults": " work_mem = 4MB , search_path=,"}, environ={})
    assert told.default_parameters == {"work_mem": "4MB", "search_path": ""}
    assert Settings().default_parameters == DEFAULTS


def test_settings_do_not_change() -> None:
    settings = Settings()
    with pytest.raises(FrozenInstanceError):
        settings.port = 1  # type: ignore[misc]


def test_the_repr_of_settings_contains_no_secrets() -> None:
    shown = repr(Settings(database_url="postgresql://shop:geheim@db/shop", dns="rfc2136://ns/zone?secret=geheim"))
    assert "geheim" not in shown
    assert "postgresql" not in shown


def test_the_data_directory_is_below_a_users_home_and_elsewhere_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/shop")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert Settings().data_dir == Path("/home/shop/.local/share/interlock")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert Settings().data_dir == Path("/data/interlock")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert Settings().data_dir == Path("/var/lib/interlock")


def test_a_user_without_a_home_directory_has_a_default_data_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(Path, "home", homeless)
    assert Settings().data_dir == Path("/var/lib/interlock")


def test_a_program_gets_database_and_schema_from_the_environment() -> None:
    environ = {"INTERLOCK_DATABASE_URL": "postgresql://db/shop", "INTERLOCK_SCHEMA": "coordination"}
    assert config.database_url(environ) == "postgresql://db/shop"
    assert config.own_schema(environ) == "coordination"
    assert config.own_schema({}) == "interlock"


def test_a_program_gets_the_data_directory_from_the_environment() -> None:
    assert config.data_dir({"INTERLOCK_DATA_DIR": "/data"}) == Path("/data")
    assert config.data_dir({}) == Settings().data_dir
    assert config.database_url({"INTERLOCK_DATABASE_URL": ""}) is None
