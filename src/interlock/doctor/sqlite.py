"""Checks whether a SQLite file can be trusted with leases."""

from collections.abc import Iterator
from pathlib import Path

from interlock.doctor.result import Finding, ok, problem
from interlock.errors import InterlockError
from interlock.stores.sqlite.examination import FileExamination, examine


def examine_file(path: Path) -> list[Finding]:
    return list(judge(examine(path)))


def judge(seen: FileExamination) -> Iterator[Finding]:
    yield _or_ok("version", seen.library, f"Python has SQLite {seen.version}.")
    if seen.is_remote:
        yield _or_ok("disk", seen.place, "")
        return
    new = "This process may write to the directory: the first use of a lease creates the file."
    yield _or_ok("reachable", seen.place, "The file exists, and this process may write to it." if seen.exists else new)
    if seen.place is None:
        yield _disk(seen.file_system)
        says = "This process may use the directory beside the file, which has the writer lock."
        yield _or_ok("writer lock", seen.side_directory, says)
        if seen.exists:
            yield from _contents(seen)


def _disk(kind: str) -> Finding:
    if not kind:
        return ok("disk", "The type of its file system is unknown: make sure that it is not a network file system.")
    return ok("disk", f"It is on a disk of this machine ({kind}).", {"file_system": kind})


def _contents(seen: FileExamination) -> Iterator[Finding]:
    if seen.contents is not None:
        yield _failed("schema", seen.contents)
        return
    log = "It has a write-ahead log."
    none = f"Its journal_mode is {seen.journal}: the first use of a lease gives it a write-ahead log."
    yield ok("journal", log if seen.journal == "wal" else none, {"journal_mode": seen.journal})
    used = "The file has leases."
    unused = "It has no leases yet: the first use of a lease creates the tables."
    yield ok("schema", used if seen.has_leases else unused, {"has_leases": seen.has_leases})


def _or_ok(check: str, error: InterlockError | None, says: str) -> Finding:
    return ok(check, says) if error is None else _failed(check, error)


def _failed(check: str, error: InterlockError) -> Finding:
    """Returns the finding for an error. The error's own sentence already says what to do."""
    return problem(check, str(error), exit_status=error.exit_status)
