"""docs/reference/settings.md, the settings and the flags of the command line agree."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest

from interlock import config
from interlock.cli import main
from interlock.config import Settings

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")

NAMES = [setting.name for setting in fields(Settings)]


def documented() -> dict[str, list[str]]:
    """The rows of the page's table by setting: variable, flag, default, meaning."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")]
    return {row[0].strip("`"): row[1:] for row in rows[2:]}


def options(group: click.Group = main) -> Iterator[click.Option]:
    """All options of all commands that change a setting."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from options(command)
        else:
            found = [option for option in command.params if isinstance(option, click.Option)]
            yield from (option for option in found if option.name in NAMES)


def test_every_setting_is_documented_and_nothing_else_is() -> None:
    assert list(documented()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_is_documented_with_its_variable(name: str) -> None:
    assert documented()[name][0] == f"`{config.environment_name(name)}`"


def test_every_documented_variable_is_read() -> None:
    mentioned = set(re.findall(r"INTERLOCK_\w+", PAGE))
    assert mentioned == {config.environment_name(name) for name in NAMES} | {"INTERLOCK_CONFIG"}


def test_a_setting_is_documented_with_its_flag() -> None:
    flags = {option.name: f"`{option.opts[0]}`" for option in options()}
    assert {name: row[1] for name, row in documented().items()} == {name: flags.get(name, "") for name in NAMES}


def test_a_flag_describes_its_setting_and_has_no_default_of_its_own() -> None:
    found = list(options())
    assert {"database_url", "schema", "gate_ttl", "port"} <= {option.name for option in found}
    for option in found:
        assert option.name is not None
        assert option.help == config.about()[option.name]
        assert option.get_default(click.Context(main)) is None
        assert not option.envvar, "the environment is read in one place"


def test_a_flag_has_the_name_of_its_setting_except_the_database() -> None:
    for option in options():
        assert option.name is not None
        usual = "--" + option.name.replace("_", "-")
        assert option.opts == (["--database"] if option.name == "database_url" else [usual])


@pytest.mark.parametrize(
    "name",
    [
        "schema",
        "host",
        "port",
        "drivers",
        "instance_ports",
        "instance_defaults",
        "dns",
        "kubernetes_image",
        "kubernetes_service_type",
        "health_interval",
        "health_failures",
        "backup_keep",
        "backup_days",
        "drift_interval",
        "drift_repair",
        "events_kept",
        "checks_kept",
        "gate_ttl",
        "gate_check_interval",
        "gate_poll",
        "log_level",
    ],
)
def test_the_documented_default_is_the_real_one(name: str) -> None:
    default = getattr(Settings(), name)
    shown = f"{default:g}" if isinstance(default, float) else str(default)
    assert documented()[name][2] == f"`{shown}`"
