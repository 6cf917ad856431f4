"""Instances, for the harness: what their steps do is on paper, and so can be counted; two have real ones made.

The database and the directory are those of the environment, and asked for each time: one process serves many tests.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from interlock.aggregate.record import Task, Transition
from interlock.aggregate.transactions import Transactions
from interlock.durable.declarations import Retry
from interlock.instances.context import InstanceContext, InstanceTiming
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Driver, Spec
from interlock.instances.orchestrations import InstanceLifecycle
from interlock.instances.tasks import Orphan, Resize, Restoration, SetParameters, WatchHealth
from support import backups_domain, paper_driver
from support.backups_domain import Kept, backup_of, in_backup_state, place_for_backups
from support.durable_samples import Domain, Sample
from support.local_instances import PORTS_OF_HARNESS, local_driver, place_for_instances
from support.paper_driver import SHARED, PaperDns, PaperDriver
from support.postgres import execute

# A watcher would go on for ever: whose second check is written is not named any more.
TABLES = (
    paper_driver.TABLES
    + """
    CREATE FUNCTION retire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE interlock.instance SET watcher = NULL
         WHERE id = NEW.instance AND (SELECT count(*) FROM interlock.instance_check WHERE instance = NEW.instance) > 1;
        RETURN NULL;
    END $$;
    CREATE TRIGGER retire AFTER INSERT ON interlock.instance_check FOR EACH ROW EXECUTE FUNCTION retire();
"""
)

_STATES = {
    "creating": (),
    "running": ("running",),
    "stopping": ("running", "stopping"),
    "starting": ("running", "starting"),
    "deleting": ("deleting",),
    "failed": ("failed",),
}


def url() -> str:
    return os.environ["STEPS_URL"]


@cache
def _local(place: str, first_port: int) -> LocalDriver:
    return local_driver(Path(place), first_port)


def real() -> LocalDriver:
    return _local(os.environ["INSTANCES_PLACE"], int(os.environ["INSTANCES_PORT"]))


class Fleeting(Transactions):
    """Opens a connection for each transaction, because event loops come and go in tests."""

    def __init__(self) -> None:
        """Does nothing."""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        async with await psycopg.AsyncConnection.connect(url()) as connection:
            yield connection


class Drivers(dict[str, Driver]):
    def get(self, name: str, default: Any = None) -> Any:
        return real() if name == "local" else PaperDriver(url, real)


TIMING = InstanceTiming(timeout=60, check_every=0.05, retry=Retry(attempts=20, first=0.2, longest=2))
lifecycle = InstanceLifecycle(InstanceContext(Fleeting(), "interlock", Drivers(), PaperDns(url), TIMING, Kept()))
parts = lifecycle.parts


@contextmanager
def surroundings() -> Iterator[dict[str, str]]:
    """Environment variables with the directories of a real instance and of backups."""
    with place_for_instances() as place:
        driver = local_driver(place, PORTS_OF_HARNESS)
        asyncio.run(driver.provision(Spec(SHARED, "shared")))
        with place_for_backups(driver) as variables:
            yield {"INSTANCES_PLACE": str(place), "INSTANCES_PORT": str(PORTS_OF_HARNESS)} | variables


def instance_of(id: str) -> str:  # noqa: A002
    return hashlib.md5(id.encode()).hexdigest()  # noqa: S324 # as the queries below have it


def task(id: str) -> Task:  # noqa: A002
    return Task(instance_of(id), id)


def in_state(state: str, *, driver: str = "paper", made: bool = True) -> Any:
    """A record in that state that the orchestration `id` works on, with its claims and its instance."""

    def prepare(database: str, id: str) -> None:  # noqa: A002
        instance = instance_of(id)
        name, host = f"i{instance}", f"i{instance}.example.com"
        insert = (
            "INSERT INTO interlock.instance (id, name, dns_name, driver, orchestration, created_by, created_at,"
            " updated_at) VALUES (%s, %s, %s, %s, %s, 'test', now(), now())"
        )
        execute(database, insert, instance, name, host, driver, id)
        for scope, claimed in (("instance", name), ("dns", host)):
            execute(database, "SELECT interlock.claim_v1(%s, ARRAY[%s], %s, 0, false)", scope, claimed, instance)
        for step in _STATES[state]:
            execute(database, "UPDATE interlock.instance SET state = %s WHERE id = %s", step, instance)
        execute(database, "UPDATE interlock.instance SET watcher = %s WHERE id = %s", id, instance)
        if not made:
            return
        if driver == "local":
            asyncio.run(real().provision(Spec(instance, name, dns_name=host)))
        else:
            execute(database, "INSERT INTO paper (id, name, state) VALUES (%s, %s, 'running')", instance, name)
            where = "UPDATE interlock.instance SET host = '127.0.0.1' WHERE id = %s"
            execute(database, where, instance)
            execute(database, "INSERT INTO published VALUES (%s, '127.0.0.1', %s)", host, instance)

    return prepare


def drifted(database: str, id: str) -> None:  # noqa: A002
    """Its record says running, but its server was stopped."""
    in_state("running")(database, id)
    execute(database, "UPDATE paper SET state = 'stopped' WHERE id = %s", instance_of(id))


def orphaned(database: str, id: str) -> None:  # noqa: A002
    """Its record says that everything is gone."""
    in_state("failed")(database, id)
    gone = "UPDATE interlock.instance SET working = false, names_freed_at = now() WHERE id = %s"
    execute(database, gone, instance_of(id))


def orphan(id: str) -> Orphan:  # noqa: A002
    return Orphan("paper", instance_of(id))


def _count(table: str, condition: str = "true", key: str = "id") -> str:
    return f"SELECT count(*) FROM {table} WHERE {key} = md5(%(id)s) AND {condition}"


def _event(kind: str) -> str:
    return _count("interlock.event", f"kind = '{kind}'", "subject")


NOTHING = "SELECT 1"
"""It only reads."""

# Where the instance ended, what it left behind, whether it is watched, and what happened, each kind once.
STATE = """
    SELECT i.state, i.working, i.error_code, i.names_freed_at IS NULL, i.deleted_at IS NULL, i.port IS NULL,
           (SELECT array_agg(c.scope ORDER BY c.scope) FROM interlock.claim c
             WHERE c.owner = i.id AND c.released_at IS NULL),
           (SELECT array_agg(p.state || coalesce(p.parameters, '')) FROM paper p WHERE p.id = i.id),
           (SELECT count(*) FROM published d WHERE d.id = i.id),
           (SELECT count(*) FROM interlock.orchestration o WHERE o.name = 'instances.watch_health'
               AND o.input ->> 'instance' = i.id AND o.id LIKE '%%:health'),
           (SELECT array_agg(e.kind ORDER BY e.kind) FROM interlock.event e
             WHERE e.subject = i.id AND e.kind NOT IN ('healthy', 'unhealthy'))
      FROM interlock.instance i WHERE i.id = md5(%(id)s)
"""

CHECKED = """
    SELECT i.health, i.watcher, (SELECT count(*) FROM interlock.instance_check c WHERE c.instance = i.id),
           (SELECT array_agg(e.kind) FROM interlock.event e WHERE e.subject = i.id)
      FROM interlock.instance i WHERE i.id = md5(%(id)s)
"""


def _changed(parameters: dict[str, str]) -> Any:
    return lambda key: SetParameters(record=instance_of(key), orchestration=key, parameters=parameters)


def _step(state: str, effects: str, kind: str = "", *, made: bool = True, value: Any = task) -> Sample:
    return Sample(value, effects, _event(kind) if kind else NOTHING, prepare=in_state(state, made=made))


def _way(state: str, *, driver: str = "paper", made: bool = True, value: Any = task, shown: str = STATE) -> Sample:
    return Sample(value, state=shown, prepare=in_state(state, driver=driver, made=made))


def restore(id: str) -> Restoration:  # noqa: A002
    return Restoration(record=instance_of(id), orchestration=id, backup=backup_of(instance_of(id)))


def backup_task(id: str) -> Task:  # noqa: A002
    return Task(backup_of(instance_of(id)), id)


def with_endpoint(state: str) -> Any:
    """A record in that state, with the address of the real instance."""
    prepare = in_state(state)

    def with_more(database: str, id: str) -> None:  # noqa: A002
        prepare(database, id)
        endpoint = asyncio.run(real().observe(SHARED)).endpoint
        assert endpoint is not None
        update = "UPDATE interlock.instance SET host = %s, port = %s, owner = %s, database = %s, ca = %s WHERE id = %s"
        where = (endpoint.host, endpoint.port, endpoint.user, endpoint.database, endpoint.ca)
        execute(database, update, *where, instance_of(id))

    return with_more


def _restored(state: str, *, made: bool = True) -> dict[str, Any]:
    return {"value": restore, "prepare": in_backup_state("made", in_state(state, made=made), mine=False)}


BACKUP_ACTIVITIES, BACKUP_ORCHESTRATIONS = backups_domain.samples(backup_task, with_endpoint)

INSTANCES = Domain(
    module=__name__,
    parts=parts,
    tables=TABLES,
    surroundings=surroundings,
    activities={
        "instances.check": _step("creating", NOTHING, "checked", made=False),
        "instances.provision": _step("creating", _count("paper"), "provisioned", made=False),
        "instances.observe": _step("creating", NOTHING),
        "instances.probe": _step("creating", _count("interlock.instance", "port IS NOT NULL"), "answered"),
        "instances.publish": _step("creating", _count("published"), "published"),
        "instances.start": _step("starting", _count("paper", "state = 'running'"), "starting"),
        "instances.stop": _step("stopping", _count("paper", "state = 'stopped'"), "stopping"),
        "instances.reset_password": _step("running", _count("paper", "resets > 0"), "password reset"),
        "instances.set_parameters": _step(
            "running",
            _count("interlock.instance", """parameters = '{"work_mem": "8MB"}'"""),
            "parameters set",
            value=_changed({"work_mem": "8MB"}),
        ),
        "instances.resize": _step(
            "running",
            "SELECT count(*) FROM interlock.instance i JOIN paper p ON p.id = i.id AND p.storage = i.storage_bytes"
            f" WHERE i.id = md5(%(id)s) AND p.storage = {3 * 2**30}",
            "resized",
            value=lambda key: Resize(record=instance_of(key), orchestration=key, storage_bytes=3 * 2**30),
        ),
        "instances.restore": Sample(effects=NOTHING, events=_event("restored"), **_restored("running")),
        "instances.withdraw": _step("deleting", "SELECT 1 - (" + _count("published") + ")", "withdrawn"),
        "instances.remove": _step("deleting", "SELECT 1 - (" + _count("paper") + ")", "removing"),
        "instances.leave_behind": _step("deleting", "SELECT 1 - (" + _count("published") + ")", "left behind"),
        "instances.transition": _step(
            "creating",
            "SELECT count(*) FROM interlock.orchestration o JOIN interlock.instance i ON i.watcher = o.id"
            " WHERE i.id = md5(%(id)s) AND i.state = 'running' AND NOT i.working",
            "come_up",
            value=lambda key: Transition(task(key), "come_up"),
        ),
        "instances.read_state": _step("creating", NOTHING),
        "instances.read_failure": _step("creating", NOTHING),
        "instances.has_ended": _step("deleting", NOTHING, value=lambda key: Task(instance_of(key), key, after="gone")),
        "instances.delete_orphan": Sample(
            orphan, "SELECT 1 - (" + _count("paper") + ")", _event("removing orphan"), prepare=orphaned
        ),
        "instances.observe_orphan": Sample(orphan, NOTHING, NOTHING, prepare=orphaned),
        "instances.check_health": _step(
            "running",
            _count("interlock.instance_check", key="instance"),
            "unhealthy",
            value=lambda key: WatchHealth(instance_of(key), key, failures=9),
        ),
    }
    | BACKUP_ACTIVITIES,
    orchestrations={
        "instances.create": _way("creating", driver="local", made=False),
        "instances.delete": _way("deleting", driver="local"),
        "instances.undo": _way("creating"),
        "instances.abandon": _way("deleting"),
        "instances.give_up": _way("deleting"),
        "instances.settle": _way("stopping"),
        "instances.stop": _way("stopping"),
        "instances.start": _way("starting"),
        "instances.restart": _way("starting"),
        "instances.reset_password": _way("running"),
        "instances.set_parameters": _way("running", value=_changed({"max_connections": "20"})),
        "instances.mend": Sample(task, state=STATE, prepare=drifted),
        "instances.remove_orphan": Sample(orphan, state=STATE, prepare=orphaned),
        "instances.watch_health": _way("running", value=lambda key: WatchHealth(instance_of(key), key), shown=CHECKED),
        "instances.resize": _way(
            "running", value=lambda key: Resize(record=instance_of(key), orchestration=key, storage_bytes=3 * 2**30)
        ),
        "instances.create_from": Sample(state=STATE, **_restored("creating", made=False)),
        "instances.restore": Sample(state=STATE, **_restored("running")),
    }
    | BACKUP_ORCHESTRATIONS,
)
