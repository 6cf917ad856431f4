"""Checks that commits survive a crash of the server, and a failover."""

from collections.abc import Iterator

from interlock.doctor.facts import DatabaseFacts
from interlock.doctor.result import Finding, ok, problem, warning
from interlock.errors import NotPrimary
from interlock.stores.postgres import quote_identifier

_FORGETS = "a failover loses the last commits"


def durability(facts: DatabaseFacts) -> Iterator[Finding]:
    said = False
    if facts.settings["fsync"].value == "off":
        said = True
        yield problem(
            "durability",
            "fsync is off: after a crash of the machine the database may be damaged, and leases may be granted twice.",
            "Set fsync = on in postgresql.conf.",
        )
    if facts.settings["full_page_writes"].value == "off":
        said = True
        yield warning(
            "durability",
            "full_page_writes is off: a crash in the middle of a write may leave a damaged page.",
            "Set full_page_writes = on, unless the file system itself never leaves half a page.",
        )
    if facts.settings["synchronous_commit"].value == "off":
        said = True
        yield warning(
            "durability",
            "synchronous_commit is off: Interlock's own grants wait for the disk all the same, "
            "but a crash loses the last writes of your own transactions, also of guarded transactions.",
            "Set synchronous_commit = on for the role or the database.",
        )
    if not said:
        yield ok("durability", "Commits wait for the disk.")


def replication(facts: DatabaseFacts) -> Iterator[Finding]:
    if facts.is_standby:
        yield problem(
            "replication",
            "This is a standby: leases and gates do not work here.",
            "Give the URL the primary's address, or every server's, and target_session_attrs=read-write.",
            exit_status=NotPrimary.exit_status,
        )
    elif facts.settings["synchronous_standby_names"].value:
        yield _synchronous(facts)
    elif facts.standbys:
        count = len(facts.standbys)
        yield warning(
            "replication",
            f"This is a primary with {count} asynchronous standby{'s' * (count > 1)}: {_FORGETS}, "
            "so a lease that was granted may be granted again after the wait that follows, "
            "and data that were written under the lease may be lost.",
            "Name a standby in synchronous_standby_names if this must not happen.",
        )
    else:
        yield ok("replication", "This is a primary without connected standbys.")


def _synchronous(facts: DatabaseFacts) -> Finding:
    """Returns the finding for a primary that is configured to wait for standbys."""
    commit = str(facts.settings["synchronous_commit"].value)
    waits = commit not in ("off", "local")
    if not waits:
        return warning(
            "replication",
            f"synchronous_standby_names is set, but with synchronous_commit = {commit} no commit waits for a standby: "
            f"{_FORGETS}.",
            "Set synchronous_commit = on for the role or the database.",
        )
    if any(standby.state is None for standby in facts.standbys):
        return warning(
            "replication",
            "Commits have to wait for a standby; this role may not see if one is connected.",
            f"Let a superuser run: GRANT pg_monitor TO {quote_identifier(facts.role)};",
        )
    in_step = [standby.name for standby in facts.standbys if standby.sync_state in ("sync", "quorum")]
    if in_step:
        return ok("replication", f"This is a primary; commits wait for {', '.join(in_step)}.", {"standbys": in_step})
    return problem(
        "replication",
        "Commits wait for a synchronous standby, and none is connected: every acquire will hang.",
        "Bring the standby back, or take it out of synchronous_standby_names.",
    )
