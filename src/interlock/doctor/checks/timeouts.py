"""Checks for harmful timeouts that the server, the database or the role sets for sessions."""

from collections.abc import Iterator
from typing import NamedTuple

from interlock.doctor.facts import DatabaseFacts, Setting
from interlock.doctor.result import Finding, ok, problem, shown, warning
from interlock.stores.postgres import quote_identifier


class Limit(NamedTuple):
    """A timeout below these limits is harmful. The value 0 means no timeout, and is never harmful."""

    warns_below: float
    fails_below: float
    hurts: str


LIMITS = {
    "statement_timeout": Limit(60, 1, "a migration's statement that takes longer is cancelled"),
    "lock_timeout": Limit(1, 0.1, "a statement that needs a row that another transaction is writing gives up"),
    "idle_in_transaction_session_timeout": Limit(10, 1, "a guarded transaction that pauses for longer is ended"),
    "idle_session_timeout": Limit(3600, 5, "a session that waits for a lease or holds a lock in silence is ended"),
    "transaction_timeout": Limit(60, 1, "a migration or a guarded transaction that takes longer is ended"),
}
SLOW_TO_SEE_DEADLOCKS = 10.0


def timeouts(facts: DatabaseFacts) -> Iterator[Finding]:
    hurting = [name for name in LIMITS if name in facts.settings and _hurts(name, facts.settings[name])]
    for name in hurting:
        yield _finding(name, facts)
    deadlock = float(facts.settings["deadlock_timeout"].value)
    if deadlock > SLOW_TO_SEE_DEADLOCKS:
        yield warning(
            "time-outs",
            f"deadlock_timeout is {shown(deadlock)}: two transactions that block each other wait for that long.",
            "Set deadlock_timeout = '1s' in postgresql.conf.",
            {"deadlock_timeout": deadlock},
        )
    elif not hurting:
        yield ok("time-outs", "No timeout is harmful.")


def _hurts(name: str, setting: Setting) -> bool:
    return 0 < float(setting.value) < LIMITS[name].warns_below


def _finding(name: str, facts: DatabaseFacts) -> Finding:
    value = float(facts.settings[name].value)
    finding = problem if value < LIMITS[name].fails_below else warning
    says = f"{name} is {shown(value)}: {LIMITS[name].hurts}."
    return finding("time-outs", says, _mended(name, facts), {name: value})


def _mended(name: str, facts: DatabaseFacts) -> str:
    """Returns the remedy: reset the timeout where it was set, or override a timeout of all roles for this role."""
    role, database = quote_identifier(facts.role), quote_identifier(facts.database)
    match facts.settings[name].source:
        case "client":
            return f"Take {name} out of the URL."
        case "database user":
            return f"ALTER ROLE {role} IN DATABASE {database} RESET {name};"
        case "user":
            return f"ALTER ROLE {role} RESET {name};"
        case "database":
            return f"ALTER ROLE {role} IN DATABASE {database} SET {name} = 0;"
        case _:
            return f"ALTER ROLE {role} SET {name} = 0;"
