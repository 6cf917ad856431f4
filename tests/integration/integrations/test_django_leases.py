"""Leases on Django's database, guarded transactions, and the system check of the settings."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import Error
from django.test import override_settings

from interlock import errors
from interlock.integrations.django import alease, async_locks, guarded, lease, locks
from interlock.integrations.django.checks import check_settings
from interlock.integrations.django.configuration import configured
from support.django_databases import django_databases
from support.lease_engine import holder, take_away
from support.postgres import execute
from support.programs import environment

NOTES = "SELECT note FROM notes ORDER BY note"


@pytest.fixture
def db(interlock_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Django with the test's database and without settings for Interlock."""
    monkeypatch.delenv("INTERLOCK_DATABASE_URL", raising=False)
    execute(interlock_url, "CREATE TABLE notes (note text)")
    with django_databases(interlock_url) as db:
        yield db
        locks().close()


@pytest.fixture
async def async_db(db: Any) -> AsyncIterator[Any]:
    yield db
    await async_locks().close()


def write(db: Any, note: str, alias: str = "default") -> None:
    with db.connections[alias].cursor() as cursor:
        cursor.execute("INSERT INTO notes VALUES (%s)", [note])


def test_a_lease_is_on_the_default_database(db: Any, interlock_url: str) -> None:
    with lease("feeds") as grant:
        assert holder(interlock_url) == grant.grant_id
        assert lease("feeds").try_acquire() is None
    assert holder(interlock_url) is None
    assert lease("feeds", slots=2, ttl=5).ttl == 5


async def test_an_asynchronous_lease_is_on_the_default_database(async_db: Any, interlock_url: str) -> None:
    async with alease("feeds") as grant:
        assert holder(interlock_url) == grant.grant_id


def test_there_is_one_root_object(db: Any) -> None:
    assert locks() is locks()
    assert async_locks() is async_locks()


def test_a_guarded_transaction_commits_while_the_lease_is_held(db: Any, interlock_url: str) -> None:
    with lease("feeds") as grant, guarded(grant):
        write(db, "held")
    assert execute(interlock_url, NOTES) == [("held",)]


def test_a_guarded_transaction_writes_nothing_once_another_holder_has_the_lease(db: Any, interlock_url: str) -> None:
    """The holder was not notified of the loss, so only the transaction can detect it."""
    grant = lease("feeds").acquire()
    take_away(interlock_url)
    assert not grant.lost
    with pytest.raises(errors.LeaseLost), guarded(grant):
        write(db, "late")
    assert execute(interlock_url, NOTES) == []


def write_and_fail(db: Any, note: str, alias: str = "default") -> None:
    write(db, note, alias)
    raise ZeroDivisionError


def test_a_guarded_transaction_is_rolled_back_if_its_body_fails(db: Any, interlock_url: str) -> None:
    with pytest.raises(ZeroDivisionError), lease("feeds") as grant, guarded(grant):
        write_and_fail(db, "half")
    assert execute(interlock_url, NOTES) == []


def test_a_guarded_transaction_inside_another_is_refused(db: Any, interlock_url: str) -> None:
    """A rollback to the savepoint would undo the guard, and the outer transaction would commit without it."""
    with lease("feeds") as grant:
        with pytest.raises(errors.GuardRefused, match="outermost"), db.transaction.atomic(), guarded(grant):
            write(db, "nested")
        with guarded(grant), db.transaction.atomic():
            write(db, "outermost")
    assert execute(interlock_url, NOTES) == [("outermost",)]


def test_a_guarded_transaction_uses_the_named_database(db: Any, interlock_url: str) -> None:
    with override_settings(INTERLOCK={"DATABASE": "other"}):
        with lease("feeds") as grant:
            with pytest.raises(ZeroDivisionError), guarded(grant):
                write_and_fail(db, "rolled back", "other")
            with pytest.raises(ZeroDivisionError), guarded(grant, using="default"):
                write_and_fail(db, "kept", "other")
        locks().close()
    assert execute(interlock_url, NOTES) == [("kept",)], "the second one was a transaction of default"


async def test_an_asynchronous_grant_is_refused(async_db: Any) -> None:
    async with alease("feeds") as grant:
        with pytest.raises(errors.ConfigurationError, match="inside sync_to_async"), guarded(grant):  # type: ignore[arg-type]
            pass


def test_without_settings_the_environment_names_the_database(db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_DATABASE_URL", "postgresql://direct/shop")
    assert configured().url == "postgresql://direct/shop"
    with override_settings(INTERLOCK_URL="postgresql://other/shop"):
        assert configured().url == "postgresql://other/shop"
    with override_settings(INTERLOCK={"URL": "postgresql://third/shop"}, INTERLOCK_URL="postgresql://other/shop"):
        assert configured().url == "postgresql://third/shop"
    with override_settings(INTERLOCK={"DATABASE": "other"}):
        assert "direct" not in configured().url, "the environment speaks of the default database"
    monkeypatch.undo()


def test_options_of_the_root_object_can_be_set(db: Any, interlock_url: str) -> None:
    with override_settings(INTERLOCK={"OPTIONS": {"replica": "shop-1"}}):
        with lease("feeds"):
            assert execute(interlock_url, "SELECT holder FROM interlock.lease") == [("shop-1",)]
        locks().close()


def test_a_sqlite_database_is_named_by_its_file(db: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "a shop.db"}
    settings = db.connections.configure_settings({"default": file})
    monkeypatch.setattr(db.connections, "settings", settings)
    connection = db.connections.create_connection.__wrapped__("default")
    monkeypatch.setattr(type(db.connections), "__getitem__", lambda self, alias: connection)
    with lease("feeds") as grant, guarded(grant), connection.cursor() as cursor:
        cursor.execute("CREATE TABLE notes (note text)")
    assert (tmp_path / "a shop.db").exists()
    locks().close()
    connection.close()
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"INTERLOCK": []}, "INTERLOCK has to be a dict"),
        ({"INTERLOCK": {"URI": "x"}}, "has 'URI', which is unknown: use URL, DATABASE"),
        ({"INTERLOCK": {"DATABASE": "none"}}, "'none', which is not in DATABASES"),
        ({"INTERLOCK": {"URL": "mysql://x"}}, "begins with 'mysql://'"),
        ({"INTERLOCK": {"URL": 7}}, "has to be a string"),
        ({"INTERLOCK_URL": "postgres"}, "has no scheme"),
        ({"INTERLOCK": {"OPTIONS": {"ttl": 5}}}, "has 'ttl', which is not an argument of Interlock()"),
        ({"INTERLOCK": {"OPTIONS": 5}}, "OPTIONS'] has to be a dict"),
        ({"INTERLOCK": {"OPTIONS": {"pooler": "maybe"}}}, "pooler='maybe'"),
        ({"INTERLOCK": {"IDEMPOTENCY": {}}}, "a dict with the entry SCOPE"),
        ({"INTERLOCK": {"IDEMPOTENCY": {"SCOPE": "no.such.module"}}}, "cannot be imported"),
        ({"INTERLOCK": {"IDEMPOTENCY": {"SCOPE": "os.sep"}}}, "is not a function"),
        ({"INTERLOCK": {"IDEMPOTENCY": {"SCOPE": 7}}}, "has to be the name of a header"),
        ({"INTERLOCK": {"IDEMPOTENCY": {"SCOPE": None, "WAITS": 1}}}, "has 'WAITS', which is unknown"),
        ({"INTERLOCK": {"IDEMPOTENCY": {"SCOPE": None, "KEEP_FOR": -1}}}, "keep_for=-1"),
    ],
)
def test_the_system_check_reports_wrong_settings(db: Any, settings: dict[str, Any], complaint: str) -> None:
    with override_settings(**settings):
        (found,) = check_settings()
    assert isinstance(found, Error)
    assert complaint in found.msg
    assert found.id.startswith("interlock.E00")


def test_the_system_check_accepts_good_settings_and_missing_ones(db: Any) -> None:
    assert check_settings() == []
    with override_settings(INTERLOCK={"DATABASE": "other", "IDEMPOTENCY": {"SCOPE": "Authorization"}}):
        assert check_settings() == []


def test_manage_py_check_reports_wrong_settings(tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text(
        "INSTALLED_APPS = ['interlock.integrations.django']\nUSE_TZ = True\nINTERLOCK = {'URI': 'x'}\n"
    )
    command = [sys.executable, "-m", "django", "check", "--settings=settings"]
    checked = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment(PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path])),
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 1
    assert "(interlock.E001) The setting INTERLOCK has 'URI', which is unknown" in checked.stderr
