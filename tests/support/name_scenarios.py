"""Scenarios for names with one owner each; a scenario raises if the name has two owners or an answer is wrong."""

from collections.abc import Callable

import psycopg

from interlock.errors import InvalidName
from support.name_locks import NONE, REFUSED, YOURS, Answer, NameLock, transaction
from support.postgres import execute


def claimed(url: str, lock: NameLock, name: str | None, owner: str, resource: str | None = None) -> Answer:
    """Claim in a transaction of its own, which is committed."""
    with transaction(url) as connection:
        return lock.claim(connection, name, owner, resource or f"resource of {owner}")


def removed(url: str, lock: NameLock, name: str, owner: str) -> None:
    with transaction(url) as connection:
        lock.begin_removing(connection, name, owner, f"resource of {owner}")
    with transaction(url) as connection:
        lock.finish_removing(connection, name, owner, f"resource of {owner}")


def the_owner_is_named(url: str, lock: NameLock) -> None:
    assert claimed(url, lock, "mydb", "A") == YOURS
    assert claimed(url, lock, "mydb", "B") == ("taken", "A")


def the_transaction_goes_on_after_a_refusal(url: str, lock: NameLock) -> None:
    """The caller can answer at once and record the refusal in the same transaction."""
    execute(url, "CREATE TABLE answers (answer text)")
    assert claimed(url, lock, "mydb", "A") == YOURS
    with transaction(url) as connection:
        lock.claim(connection, "mydb", "B", "resource of B")
        connection.execute("INSERT INTO answers VALUES ('409')")
    assert execute(url, "SELECT answer FROM answers") == [("409",)]


def every_name_has_one_owner(url: str, lock: NameLock) -> None:
    """Also a name that looks as if it were marked."""
    assert claimed(url, lock, "undeleted1", "A") == YOURS
    assert claimed(url, lock, "undeleted1", "B") != YOURS


def it_is_held_while_it_is_removed(url: str, lock: NameLock) -> None:
    assert claimed(url, lock, "mydb", "A") == YOURS
    with transaction(url) as connection:
        lock.begin_removing(connection, "mydb", "A", "resource of A")
    assert claimed(url, lock, "mydb", "B") != YOURS


def another_owner_of_the_same_resource_is_refused(url: str, lock: NameLock) -> None:
    assert claimed(url, lock, "mydb", "A", "pod-1") == YOURS
    assert claimed(url, lock, "other", "B", "pod-1") == ("taken", "A")


def a_late_repetition_changes_nothing(url: str, lock: NameLock) -> None:
    assert claimed(url, lock, "mydb", "A") == YOURS
    removed(url, lock, "mydb", "A")
    assert claimed(url, lock, "mydb", "A") == REFUSED
    assert claimed(url, lock, "mydb", "B") == YOURS


def two_spellings_are_one_name(url: str, lock: NameLock) -> None:
    assert claimed(url, lock, "MyDB", "A") == YOURS
    assert claimed(url, lock, "mydb", "B") != YOURS


def an_empty_name_is_none(url: str, lock: NameLock) -> None:
    assert claimed(url, lock, "", "A") == NONE
    assert claimed(url, lock, "", "B") == NONE


def what_is_no_name_is_refused(url: str, lock: NameLock) -> None:
    try:
        answer = claimed(url, lock, "bad name!", "A")
    except InvalidName:
        return
    raise AssertionError(answer)


def the_history_stays(url: str, lock: NameLock) -> None:
    assert claimed(url, lock, "mydb", "A") == YOURS
    removed(url, lock, "mydb", "A")
    assert claimed(url, lock, "mydb", "B") == YOURS
    with transaction(url) as connection:
        assert lock.owners(connection, "mydb") == ["A", "B"]


SCENARIOS: dict[Callable[[str, NameLock], None], type[Exception]] = {
    the_owner_is_named: psycopg.errors.InFailedSqlTransaction,
    the_transaction_goes_on_after_a_refusal: psycopg.errors.InFailedSqlTransaction,
    every_name_has_one_owner: AssertionError,
    it_is_held_while_it_is_removed: AssertionError,
    another_owner_of_the_same_resource_is_refused: RuntimeError,
    a_late_repetition_changes_nothing: AssertionError,
    two_spellings_are_one_name: AssertionError,
    an_empty_name_is_none: AssertionError,
    what_is_no_name_is_refused: AssertionError,
    the_history_stays: AssertionError,
}
"""The failure of rows that lock names, by scenario."""
