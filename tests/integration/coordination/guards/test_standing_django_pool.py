"""Guards on connections from Django's own pool: whoever borrows next never writes as the one before."""

from collections.abc import Iterator
from typing import Any

import pytest

from interlock.connections import code_of
from interlock.coordination.guards import guarding_sync
from interlock.errors import GuardRefused
from support.django_databases import django_databases
from support.leases import Grant
from support.lending import STANDING_THERE, Reset, forgets_nothing
from support.postgres import execute
from support.protection_scenarios import protected

NOBODY_GUARDS = ("", "IL002")
WRITE = "INSERT INTO notes VALUES ('a')"
END = "SELECT pg_terminate_backend(%s, 10000)"
RESETS: dict[str, Reset] = {
    "without reset": None,
    "reset that forgets nothing": forgets_nothing,
    "reset that forgets all": lambda connection: connection.execute("RESET ALL"),
}


@pytest.fixture
def grant(interlock_url: str) -> Grant:
    return protected(interlock_url)


@pytest.fixture(params=RESETS)
def django(request: pytest.FixtureRequest, grant: Grant) -> Iterator[Any]:
    with django_databases(grant.url, pool={"min_size": 1, "max_size": 1, "reset": RESETS[request.param]}) as django:
        yield django


def pid(connection: Any) -> int:
    connection.ensure_connection()
    return int(connection.connection.info.backend_pid)


def run(connection: Any, statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()[0] if cursor.description else None


def written(django: Any, connection: Any) -> str:
    try:
        run(connection, WRITE)
    except django.Error as error:
        return code_of(error) or "no code"
    return "committed"


def next_finds(django: Any) -> tuple[int, str, str]:
    """What another thread's connection would find in the session that it borrows: its process, what stands there, and
    what becomes of a write."""
    other = django.connection.copy()
    try:
        return pid(other), run(other, STANDING_THERE), written(django, other)
    finally:
        other.close()


def end_the_session(django: Any, grant: Grant) -> None:
    with guarding_sync((grant,)), django.transaction.atomic():
        assert execute(grant.url, END, pid(django.connection)) == [(True,)]
        run(django.connection, WRITE)


def fail_in_the_middle(django: Any, grant: Grant) -> None:
    with guarding_sync((grant,)), django.transaction.atomic():
        run(django.connection, WRITE)
        raise ZeroDivisionError


def notes(grant: Grant) -> list[str]:
    return [note for (note,) in execute(grant.url, "SELECT note FROM notes")]


def test_after_the_block_the_session_is_lent_on_without_the_guard(django: Any, grant: Grant) -> None:
    with guarding_sync((grant,)):
        lent = pid(django.connection)
        with django.transaction.atomic():
            run(django.connection, WRITE)
        run(django.connection, WRITE)
    django.connection.close()
    assert next_finds(django) == (lent, *NOBODY_GUARDS)
    assert notes(grant) == ["a", "a"]


def test_so_it_is_after_an_error(django: Any, grant: Grant) -> None:
    lent = pid(django.connection)
    with pytest.raises(ZeroDivisionError):
        fail_in_the_middle(django, grant)
    django.connection.close()
    assert next_finds(django) == (lent, *NOBODY_GUARDS)
    assert notes(grant) == []


@pytest.mark.parametrize("how", ["close", "close_if_unusable_or_obsolete"])
def test_a_connection_that_is_closed_in_the_block_is_lent_to_nobody(django: Any, grant: Grant, how: str) -> None:
    block = guarding_sync((grant,))
    block.__enter__()
    lent = pid(django.connection)
    getattr(django.connection, how)()
    found, *rest = next_finds(django)
    assert found != lent
    assert tuple(rest) == NOBODY_GUARDS
    with pytest.raises(GuardRefused, match="give it back after the block"):
        block.__exit__(None, None, None)


def test_so_is_one_that_is_closed_at_the_end_of_a_request_in_the_block(django: Any, grant: Grant) -> None:
    block = guarding_sync((grant,))
    block.__enter__()
    lent = pid(django.connection)
    django.close_old_connections()
    found, *rest = next_finds(django)
    assert found != lent
    assert tuple(rest) == NOBODY_GUARDS
    with pytest.raises(GuardRefused, match="give it back after the block"):
        block.__exit__(None, None, None)


def test_so_is_one_that_is_closed_in_a_transaction(django: Any, grant: Grant) -> None:
    block = guarding_sync((grant,))
    block.__enter__()
    with django.transaction.atomic():
        run(django.connection, WRITE)
        django.connection.close()
        assert next_finds(django)[1:] == NOBODY_GUARDS
    with pytest.raises(GuardRefused, match="give it back after the block"):
        block.__exit__(None, None, None)
    assert notes(grant) == []


def test_what_django_borrows_anew_in_the_block_is_not_touched_at_its_end(django: Any, grant: Grant) -> None:
    block = guarding_sync((grant,))
    block.__enter__()
    django.connection.close()
    assert written(django, django.connection) == "IL002"
    with django.transaction.atomic():
        run(django.connection, "CREATE TABLE others (note text)")
        with pytest.raises(GuardRefused, match="give it back after the block"):
            block.__exit__(None, None, None)
    assert execute(grant.url, "SELECT * FROM others") == []


def test_a_session_that_is_ended_in_the_block_is_replaced(django: Any, grant: Grant) -> None:
    lent = pid(django.connection)
    with pytest.raises(django.OperationalError):
        end_the_session(django, grant)
    django.connection.close()
    found, *rest = next_finds(django)
    assert found != lent
    assert tuple(rest) == NOBODY_GUARDS


def test_and_one_whose_guard_cannot_be_taken_away(django: Any, grant: Grant) -> None:
    block = guarding_sync((grant,))
    block.__enter__()
    execute(grant.url, "ALTER FUNCTION interlock.stand_down_v1 RENAME TO gone_v1")
    with pytest.raises(django.Error, match="does not exist"):
        block.__exit__(None, None, None)
    django.connection.close()
    assert next_finds(django)[1:] == NOBODY_GUARDS


def test_the_pool_that_django_makes_by_itself(grant: Grant) -> None:
    with django_databases(grant.url, pool=True) as django:
        with guarding_sync((grant,)):
            run(django.connection, WRITE)
        django.connection.close()
        for _ in range(4):
            assert next_finds(django)[1:] == NOBODY_GUARDS
    assert notes(grant) == ["a"]
