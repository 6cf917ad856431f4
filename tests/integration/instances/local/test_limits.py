"""The limits of all instances of a driver together, and the defaults of each."""

import asyncio
from pathlib import Path

import pytest

from interlock.aggregate.transactions import Transactions
from interlock.config import Settings
from interlock.errors import ConfigurationError, TooManyInstances
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.local.environment import LocalEnvironment
from interlock.server.instance_context import instance_context
from support.local_instances import FIRST_PORT, PG_BIN, Shop, new_spec

PORTS = range(FIRST_PORT, FIRST_PORT + 40)


def limited(root: Path) -> LocalDriver:
    return LocalDriver(root, ports=PORTS, pg_bin=PG_BIN, limit=1)


async def test_an_instance_above_the_limit_is_refused_until_another_is_removed(root: Path) -> None:
    driver, first, second = limited(root), new_spec(), new_spec()
    await driver.provision(first)

    for verb in (driver.check, driver.provision):
        with pytest.raises(TooManyInstances, match="may have 1 instances, and has 1: remove an instance"):
            await verb(second)
    assert await driver.ids() == {first.id: first.name}
    await driver.check(first)
    await driver.provision(first)

    await driver.remove(first.id)

    await driver.check(second)


@pytest.mark.exhaustive
async def test_concurrent_creations_respect_the_limit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request found space at its first check."""
    monkeypatch.setattr(LocalEnvironment, "check", lambda machine, spec: machine.binaries(spec.version))
    specs = [new_spec() for _ in range(3)]

    results = await asyncio.gather(*(limited(root).provision(spec) for spec in specs), return_exceptions=True)

    assert sorted(type(each).__name__ for each in results) == ["NoneType", "TooManyInstances", "TooManyInstances"]
    made = specs[results.index(None)]
    assert await limited(root).ids() == {made.id: made.name}
    assert sorted(path.name for path in root.iterdir()) == sorted([made.id, "ports.lock"])


async def test_an_instance_has_the_defaults_unless_it_asks_for_something_else(root: Path) -> None:
    defaults = {"Work_Mem": "6MB", "max_connections": "40"}
    driver = LocalDriver(root, ports=PORTS, pg_bin=PG_BIN, defaults=defaults)
    shop = Shop(driver, new_spec(parameters={"max_connections": "20"}), root)
    await driver.provision(shop.spec)
    asked = ("work_mem", "max_connections", "shared_buffers")

    assert [await shop.ask(f"SHOW {name}") for name in asked] == ["6MB", "20", "32MB"]
    assert await driver.set_parameters(shop.spec.id, {"work_mem": "7MB"}) == "restart needed"
    assert await shop.ask("SHOW work_mem") == "7MB"
    await driver.stop(shop.spec.id)
    await driver.start(shop.spec.id)
    assert [await shop.ask(f"SHOW {name}") for name in asked] == ["7MB", "40", "32MB"]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("wrok_mem=4MB", "unrecognized configuration parameter"),
        ("work_mem=a lot", "invalid value for parameter"),
        ("port=5432", "set by Interlock itself"),
        ("archive_command=true", "affect more than this instance"),
    ],
)
def test_invalid_defaults_are_reported_at_the_start(tmp_path: Path, told: str, words: str) -> None:
    settings = Settings(data_dir=tmp_path, pg_bin=PG_BIN, instance_defaults=told)

    with pytest.raises(ConfigurationError, match=f"^instance_defaults is '{told}': .*{words}"):
        instance_context(settings, Transactions("postgresql://app@localhost:1/nothing", "instances"))


async def test_the_settings_reach_the_driver(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, pg_bin=PG_BIN, instance_limit=0, instance_defaults="work_mem=5MB")

    driver = instance_context(settings, Transactions("postgresql://app@localhost:1/nothing", "instances")).driver(
        "local"
    )

    with pytest.raises(TooManyInstances):
        await driver.check(new_spec())


def test_without_programs_the_start_goes_on(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, pg_bin=tmp_path, instance_defaults="work_mem=5MB")

    assert instance_context(settings, Transactions("postgresql://app@localhost:1/nothing", "instances")).driver("local")
