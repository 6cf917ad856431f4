"""The errors for the output of PostgreSQL's programs, with advice."""

import pytest

from interlock.errors import BackupFailed, DatabaseUnreachable, InterlockError, OutOfSpace
from interlock.instances.backups.programs import _failure

SAID = [
    (
        "pg_restore",
        "pg_restore: error: could not execute query: ERROR:  out of shared memory\n"
        'HINT:  You might need to increase "max_locks_per_transaction".\nCommand was: CREATE TABLE secret ()',
        BackupFailed,
        "ERROR: out of shared memory): raise the instance's parameter max_locks_per_transaction",
    ),
    (
        "pg_dump",
        "pg_dump: error: query failed: ERROR:  canceling statement due to statement timeout\n"
        "pg_dump: detail: Query was: LOCK TABLE secret",
        BackupFailed,
        "s for a table that another transaction has locked",
    ),
    (
        "pg_restore",
        "pg_restore: error: could not execute query: FATAL:  terminating connection due to administrator command",
        DatabaseUnreachable,
        "lost its connection to the instance",
    ),
    ("pg_dump", "pg_dump: error: could not write to file: No space left on device", OutOfSpace, "free some space"),
    (
        "pg_restore",
        "pg_restore: error: could not execute query: ERROR:  cannot drop table item\nDETAIL:  secret",
        BackupFailed,
        "cannot drop table item): correct that",
    ),
    ("pg_dump", "", BackupFailed, "exit status -9"),
]


@pytest.mark.parametrize(("program", "said", "kind", "words"), SAID)
def test_a_failure_is_one_sentence_without_statements(
    program: str, said: str, kind: type[InterlockError], words: str
) -> None:
    error = _failure(program, -9, said)
    assert type(error) is kind
    assert words in str(error)
    assert "secret" not in str(error)
    assert "\n" not in str(error)
