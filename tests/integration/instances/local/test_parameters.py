"""PostgreSQL's parameters of an instance: checked by the server, and in effect when the operation returns."""

import asyncio
import logging
import os
import signal
import threading

import asyncpg
import pytest

from interlock.errors import BadSpec, ClusterFailed
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Spec
from support.local_instances import Shop, new_spec

REFUSED = {
    "work_mem": ("a lot", 'invalid value for parameter "work_mem": "a lot"'),
    "wrok_mem": ("5MB", 'unrecognized configuration parameter "wrok_mem"'),
    "max_connections": ("0", "outside the valid range"),
    "block_size": ("8192", "cannot be changed"),
    "port": ("5432", "set by Interlock itself"),
    "password_encryption": ("md5", "set by Interlock itself"),
    "archive_command": ("touch /tmp/broken-into", "affect more than this instance"),
    "shared_preload_libraries": ("/tmp/evil.so", "affect more than this instance"),
    "jit_provider": ("../../../../tmp/evil", "affect more than this instance"),
    "plperl.on_init": ("system('touch /tmp/broken-into')", "affect more than this instance"),
    "work mem": ("5MB", "cannot be the name of a PostgreSQL setting"),
    "application_name": ("two\nlines", "control character"),
}


@pytest.mark.exhaustive(beyond=6)
@pytest.mark.parametrize("name", REFUSED)
async def test_invalid_parameters_are_refused_with_a_reason(shop: Shop, name: str) -> None:
    value, words = REFUSED[name]

    with pytest.raises(BadSpec, match=words):
        await shop.driver.check(new_spec(parameters={name: value}))
    with pytest.raises(BadSpec, match=words):
        await shop.driver.set_parameters(shop.spec.id, {"work_mem": "7MB", name: value})

    assert await shop.ask("SHOW work_mem") == "4MB"


async def test_parameters_that_only_the_running_server_refuses_are_not_kept(shop: Shop) -> None:
    settings = shop.directory / "postgresql" / "settings.conf"
    before = settings.read_text()

    with pytest.raises(BadSpec, match="running server refuses the parameter default_text_search_config"):
        await shop.driver.set_parameters(shop.spec.id, {"default_text_search_config": "no_such_configuration"})

    assert settings.read_text() == before


async def test_reloadable_parameters_take_effect_at_once(shop: Shop) -> None:
    assert (
        await shop.driver.set_parameters(shop.spec.id, {"work_mem": "7MB", "Maintenance_Work_Mem": "9MB"}) == "reloaded"
    )

    assert await shop.ask("SHOW work_mem") == "7MB"
    assert await shop.ask("SHOW maintenance_work_mem") == "9MB"


class StoppedPostmaster(logging.Handler):
    """Stops the postmaster as soon as the new parameters are in its files."""

    def __init__(self, pid: int) -> None:
        super().__init__(logging.DEBUG)
        self._pid = pid
        self.did = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        os.kill(self._pid, signal.SIGSTOP)
        self.did.set()


async def test_the_answer_comes_when_the_server_has_read_them(shop: Shop) -> None:
    postmaster = int((shop.directory / "postgresql" / "data" / "postmaster.pid").read_text().split()[0])
    steps = logging.getLogger("interlock.instances.drivers.local.directory")
    handler, level = StoppedPostmaster(postmaster), steps.level
    steps.addHandler(handler)
    steps.setLevel(logging.DEBUG)
    try:
        answer = asyncio.ensure_future(shop.driver.set_parameters(shop.spec.id, {"work_mem": "8MB"}))
        assert await asyncio.to_thread(handler.did.wait, 50)
        done, _ = await asyncio.wait([answer], timeout=1)
        assert not done
    finally:
        steps.removeHandler(handler)
        steps.setLevel(level)
        os.kill(postmaster, signal.SIGCONT)

    assert await answer == "reloaded"
    assert await shop.ask("SHOW work_mem") == "8MB"


async def test_parameters_replace_all_earlier_ones(shop: Shop) -> None:
    await shop.driver.set_parameters(shop.spec.id, {"work_mem": "7MB"})

    assert await shop.driver.set_parameters(shop.spec.id, {"statement_timeout": "1min"}) == "reloaded"

    assert await shop.ask("SHOW work_mem") == "4MB"
    assert await shop.ask("SHOW statement_timeout") == "1min"


async def test_parameters_that_need_a_restart_are_reported_and_take_effect_after_it(shop: Shop) -> None:
    assert await shop.driver.set_parameters(shop.spec.id, {"max_connections": "31"}) == "restart needed"
    assert await shop.driver.set_parameters(shop.spec.id, {"max_connections": "31"}) == "restart needed"
    assert await shop.ask("SHOW max_connections") == "50"

    await shop.driver.stop(shop.spec.id)
    await shop.driver.start(shop.spec.id)

    assert await shop.ask("SHOW max_connections") == "31"
    assert await shop.driver.set_parameters(shop.spec.id, {"max_connections": "31"}) == "reloaded"
    assert await shop.driver.set_parameters(shop.spec.id, {}) == "restart needed"
    await shop.driver.stop(shop.spec.id)
    await shop.driver.start(shop.spec.id)


async def test_parameters_of_a_stopped_instance_take_effect_at_its_start(shop: Shop) -> None:
    await shop.driver.stop(shop.spec.id)

    assert await shop.driver.set_parameters(shop.spec.id, {"work_mem": "6MB"}) == "reloaded"

    await shop.driver.start(shop.spec.id)
    assert await shop.ask("SHOW work_mem") == "6MB"


async def test_parameters_that_block_every_connection_can_be_replaced(shop: Shop) -> None:
    """Only a new connection notices that the library does not exist."""
    assert await shop.driver.set_parameters(shop.spec.id, {"session_preload_libraries": "no_such"}) == "reloaded"
    with pytest.raises(asyncpg.UndefinedFileError):
        await shop.ask("SELECT 1")

    assert await shop.driver.set_parameters(shop.spec.id, {"work_mem": "6MB"}) == "restart needed"

    await shop.driver.stop(shop.spec.id)
    await shop.driver.start(shop.spec.id)
    assert await shop.ask("SHOW work_mem") == "6MB"


async def test_a_starting_server_needs_a_restart(shop: Shop) -> None:
    """The server is in recovery after a crash: it has read its files already."""
    told = shop.directory / "postgresql" / "data" / "postmaster.pid"
    ready = told.read_text()
    told.write_text(ready.replace("ready   ", "starting"))
    try:
        assert (await shop.driver.observe(shop.spec.id)).state == "starting"
        assert await shop.driver.set_parameters(shop.spec.id, {"work_mem": "6MB"}) == "restart needed"
    finally:
        told.write_text(ready)
    assert await shop.ask("SHOW work_mem") == "4MB"


async def test_an_instance_is_small_unless_told(shop: Shop) -> None:
    assert await shop.ask("SHOW max_connections") == "50"
    assert await shop.ask("SHOW shared_buffers") == "32MB"
    assert await shop.ask("SHOW fsync") == "on"


async def test_a_server_that_cannot_start_leaves_no_instance(driver: LocalDriver, spec: Spec) -> None:
    bad = Spec(spec.id, spec.name, parameters={"shared_preload_libraries": "no_such_library"})

    with pytest.raises(ClusterFailed, match="no_such_library"):
        await driver.provision(bad)

    assert await driver.ids() == {}
    assert (await driver.observe(spec.id)).state == "absent"
