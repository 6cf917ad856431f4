"""Checks for a pooler on the path to the server, and counts the free connections."""

from collections.abc import Iterator

from interlock.doctor.facts import DatabaseFacts, Pooler
from interlock.doctor.result import Finding, ok, problem, warning
from interlock.errors import EX_UNAVAILABLE

FEW = 10
TOO_FEW = 3

_WHOSE = {
    "server": ("the server's", "Raise max_connections, or put a pooler in front."),
    "role": ("the role's", "Run ALTER ROLE … CONNECTION LIMIT with a higher number, or -1 for no limit."),
    "database": ("the database's", "Run ALTER DATABASE … CONNECTION LIMIT with a higher number, or -1 for no limit."),
}
_OWN_ADDRESS = "Give gates and session locks the database's own address"


def pooler(facts: DatabaseFacts) -> Iterator[Finding]:
    mode = facts.pooler
    figures = {"mode": mode.value}
    match mode:
        case Pooler.NONE:
            yield ok("pooler", "The connection is to the server itself.", figures)
        case Pooler.SESSION:
            yield warning(
                "pooler",
                "The connection is to a pooler in session mode: leases work, gates need an option, "
                "session locks refuse the pooler.",
                f"{_OWN_ADDRESS}, or gates --session-pooler.",
                figures,
            )
        case Pooler.TRANSACTION:
            yield warning(
                "pooler",
                "The connection is to a pooler in transaction mode: leases and guards work, waiters poll; "
                "gates and session locks refuse the pooler.",
                f"{_OWN_ADDRESS}; there, waiters for leases wake sooner too.",
                figures,
            )
        case Pooler.STATEMENT:
            yield problem(
                "pooler",
                "The connection is to a pooler in statement mode: it has no transactions, so guards cannot work.",
                "Put the pooler in transaction mode, or use the database's own address.",
                figures,
            )
        case Pooler.UNKNOWN:
            yield warning(
                "pooler",
                "The connection is to a pooler. Its mode is unknown, because it accepted no second client.",
                "Check the pooler's pool_mode and pool size, or use the database's own address.",
                figures,
            )


def connections(facts: DatabaseFacts) -> Iterator[Finding]:
    tightest = min(facts.rooms, key=lambda room: room.free)
    whose, remedy = _WHOSE[tightest.limit_of]
    says = (
        f"There is room for {tightest.free} more connections: {tightest.used} of {whose} {tightest.limit} are in use."
    )
    figures = {"limit_of": tightest.limit_of, "limit": tightest.limit, "used": tightest.used}
    if tightest.free < TOO_FEW:
        yield problem("connections", says, remedy, figures, exit_status=EX_UNAVAILABLE)
    elif tightest.free < FEW:
        yield warning("connections", says, remedy, figures)
    else:
        yield ok("connections", says, figures)
