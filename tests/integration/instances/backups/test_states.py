"""The database itself enforces the states of a backup."""

from itertools import product
from typing import get_args

import psycopg
from psycopg import errors as refusals

from interlock.instances.backups.model import TRANSITIONS, State
from support.postgres import execute

INSTANCE = """
    INSERT INTO interlock.instance (id, name, driver, orchestration, created_by, created_at, updated_at)
    VALUES ('i', 'shop', 'paper', 'o', 'test', now(), now())
"""
BACKUP = """
    INSERT INTO interlock.instance_backup (id, instance, instance_name, format, path, size_bytes, sha256,
           server_version, program_version, orchestration, created_by, created_at, updated_at, made_at)
    VALUES ('b', 'i', 'shop', 'file', 'p', 1, 's', '17.1', '17.1', 'o', 'test', now(), now(), now())
"""


def test_every_change_that_is_not_declared_is_refused(interlock_url: str) -> None:
    execute(interlock_url, INSTANCE)
    execute(interlock_url, BACKUP)
    with psycopg.connect(interlock_url, autocommit=True) as connection:
        for before, after in product(get_args(State), get_args(State)):
            connection.execute("ALTER TABLE interlock.instance_backup DISABLE TRIGGER USER")
            connection.execute(moved_to(before), [before])
            connection.execute("ALTER TABLE interlock.instance_backup ENABLE TRIGGER USER")
            try:
                connection.execute(moved_to(after), [after])
            except refusals.CheckViolation:
                moved = False
            else:
                moved = True
            assert moved is (before == after or after in TRANSITIONS.get(before, {}).values()), (before, after)


def moved_to(state: str) -> str:
    gone = "now()" if state == "deleted" else "NULL"
    return f"UPDATE interlock.instance_backup SET state = %s, deleted_at = {gone}"
