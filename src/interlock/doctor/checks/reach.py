"""Checks that the server answers, how fast it answers, and the roles of several servers."""

from collections.abc import Iterator, Sequence

from interlock.doctor.facts import DatabaseFacts, ServerFacts
from interlock.doctor.result import Finding, ok, problem, shown, warning
from interlock.errors import EX_UNAVAILABLE, StoreError

SLOW = 0.1
TOO_SLOW = 1.0


def not_reached(error: StoreError) -> Finding:
    """Returns the finding for an unreachable database. The error's own sentence already says what to do."""
    return problem("reachable", str(error), exit_status=error.exit_status)


def reachable(facts: DatabaseFacts) -> Iterator[Finding]:
    yield answers(facts.round_trip)


def answers(taken: float) -> Finding:
    says = f"It answers within {shown(taken)}."
    nearer = "Bring this process and the database nearer to each other; until then, use a ttl of a minute or more."
    figures = {"round_trip": taken}
    if taken >= TOO_SLOW:
        return problem("reachable", says, nearer, figures, exit_status=EX_UNAVAILABLE)
    if taken >= SLOW:
        return warning("reachable", f"{says} Each acquire and each renewal takes that long at least.", nearer, figures)
    return ok("reachable", says, figures)


def version(facts: DatabaseFacts) -> Iterator[Finding]:
    """Always a good finding: a server that is too old was refused before, when the connection was opened."""
    yield ok("version", f"It is PostgreSQL {facts.version}.", {"version": facts.version})


def servers(found: Sequence[ServerFacts], wanted: str | None) -> Iterator[Finding]:
    """Checks the role of each of several servers. There is no finding if the URL names only one server."""
    if not found:
        return
    primaries = [server.address for server in found if server.is_standby is False]
    silent = [server for server in found if server.error]
    if len(primaries) > 1:
        yield problem(
            "servers",
            f"More than one of the servers takes writes: {', '.join(primaries)}.",
            "Stop all but one, or name only servers of one cluster: each of these servers would grant the same lease.",
        )
    for server in silent:
        yield warning(
            "servers", f"{server.address} was not reached: {server.error}", "Make sure that this server can take over."
        )
    if wanted in (None, "any", "prefer-standby", "standby", "read-only"):
        yield warning(
            "servers",
            "The URL names several servers and does not ask for the one that takes writes.",
            "Add target_session_attrs=read-write to the URL.",
        )
    if len(primaries) <= 1 and not silent:
        yield ok("servers", "Each answers: " + ", ".join(map(_called, found)) + ".")


def _called(server: ServerFacts) -> str:
    return f"{server.address} is {'a standby' if server.is_standby else 'the primary'}"
