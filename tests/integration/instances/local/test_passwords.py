"""The driver's password of the owner is the server's, even if a process died during a change."""

import asyncio
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from interlock.embedded import Cluster
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Spec
from interlock.stores.postgres import connect
from support.local_instances import Shop, connected, run_until

# It is of the very types that we ask for, and PostgreSQL's own of any.
HOSTILE = """
    CREATE FUNCTION public.format(text, text, text) RETURNS text LANGUAGE sql
    AS $$ SELECT 'ALTER ROLE shop SUPERUSER PASSWORD ' || quote_literal($3) $$
"""


@pytest.mark.parametrize("step", [1, 2])
async def test_an_interrupted_password_change_is_finished_by_the_next_request(shop: Shop, step: int) -> None:
    old = await shop.driver.password(shop.spec.id)
    assert await asyncio.to_thread(run_until, shop.root, "reset_password", shop.spec, step)

    new = await shop.driver.password(shop.spec.id)

    assert new != old
    assert await shop.ask("SELECT 1", new) == 1
    with pytest.raises(asyncpg.InvalidPasswordError):
        await shop.ask("SELECT 1", old)
    assert not (shop.directory / "password.next").exists()


async def test_no_step_of_a_change_was_forgotten(shop: Shop) -> None:
    assert not await asyncio.to_thread(run_until, shop.root, "reset_password", shop.spec, 3)


async def test_a_new_password_of_a_stopped_instance_takes_effect_at_its_start(shop: Shop) -> None:
    old = await shop.driver.password(shop.spec.id)
    await shop.driver.stop(shop.spec.id)

    await shop.driver.reset_password(shop.spec.id)

    new = await shop.driver.password(shop.spec.id)
    assert new != old
    await shop.driver.start(shop.spec.id)
    assert await shop.ask("SELECT 1", new) == 1
    with pytest.raises(asyncpg.InvalidPasswordError):
        await shop.ask("SELECT 1", old)


async def test_an_instance_that_is_read_only_by_default_takes_a_new_password(shop: Shop) -> None:
    await shop.driver.set_parameters(shop.spec.id, {"default_transaction_read_only": "on"})
    old = await shop.driver.password(shop.spec.id)

    await shop.driver.reset_password(shop.spec.id)

    new = await shop.driver.password(shop.spec.id)
    assert new != old
    assert await shop.ask("SHOW transaction_read_only", new) == "on"


async def test_no_function_of_the_owners_is_called_by_the_superuser(shop: Shop) -> None:
    """Before PostgreSQL 15 every role may create functions in the database of the superuser's sessions."""
    cluster = Cluster(shop.directory / "postgresql")
    async with await connect(cluster.url(), application_name="test") as superuser:
        await superuser.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    owner = await connected(
        replace(await shop.endpoint(), database="postgres"), await shop.driver.password(shop.spec.id)
    )
    try:
        await owner.execute(HOSTILE)
        for parameters in ({}, {"search_path": "public, pg_catalog"}):
            await shop.driver.set_parameters(shop.spec.id, parameters)
            await shop.driver.reset_password(shop.spec.id)
            assert await shop.ask("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
    finally:
        await owner.execute("DROP FUNCTION public.format(text, text, text)")
        await owner.close()


async def test_a_server_that_writes_down_every_statement_writes_down_no_password(
    root: Path, driver: LocalDriver, spec: Spec
) -> None:
    await driver.provision(Spec(spec.id, spec.name, parameters={"log_statement": "all"}))
    passwords = [await driver.password(spec.id)]
    await driver.reset_password(spec.id)
    passwords.append(await driver.password(spec.id))

    log = "\n".join([line async for line in driver.logs(spec.id, lines=10_000)])

    assert "ALTER ROLE" in log
    for password in passwords:
        assert password not in log
