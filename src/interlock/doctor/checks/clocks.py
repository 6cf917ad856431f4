"""Checks the clocks. Leases use the database's clock alone: its steps do harm, and failovers to another clock."""

from collections.abc import Iterator, Sequence

from interlock.doctor.facts import DatabaseFacts, Offset, ServerFacts, StandbyFacts
from interlock.doctor.result import Finding, ok, problem, shown, warning

APART = 1.0
FAR_APART = 10.0
LONG_SILENT = 60.0

_SYNCHRONISE = "Make sure that both machines run a time service that slews (chrony, systemd-timesyncd) and never steps."


def clocks(facts: DatabaseFacts) -> Iterator[Finding]:
    clock = facts.clock
    figures = {"ahead": clock.ahead, "uncertainty": clock.uncertainty}
    says = f"The database's clock is {_apart(clock)} this machine's, give or take {shown(clock.uncertainty)}."
    if clock.at_least >= FAR_APART:
        yield problem(
            "clock",
            f"{says} If a step corrects the clock, leases that are still held are granted again.",
            _SYNCHRONISE,
            figures,
        )
    elif clock.at_least >= APART:
        yield warning("clock", says, _SYNCHRONISE, figures)
    else:
        yield ok("clock", says, figures)
    for standby in facts.standbys:
        yield from _of_standby(standby)


def _of_standby(standby: StandbyFacts) -> Iterator[Finding]:
    """Judges the time in a standby's last answer, by the standby's clock: a time in the future shows a wrong clock."""
    if standby.answered_ago is None:
        return
    if standby.answered_ago <= -APART:
        yield _ahead(standby.name, -standby.answered_ago, -standby.answered_ago)  # at least: it answered before now
    elif standby.answered_ago >= LONG_SILENT:
        yield warning(
            "clock",
            f"The standby {standby.name} answered {shown(standby.answered_ago)} ago, by its own clock.",
            f"Either the standby is stuck, or its clock is behind. {_SYNCHRONISE}",
        )


def clocks_of_servers(found: Sequence[ServerFacts]) -> Iterator[Finding]:
    """Compares the clock of each standby with the primary's, if the URL names the servers."""
    primary = next((server.clock for server in found if server.is_standby is False), None)
    for server in found:
        if primary and server.clock and server.is_standby:
            yield _against_primary(server.address, server.clock.against(primary))


def _against_primary(name: str, clock: Offset) -> Finding:
    if clock.at_least < APART:
        give_or_take = f"give or take {shown(clock.uncertainty)}"
        says = f"The clock of the standby {name} is {_apart(clock)} the primary's, {give_or_take}."
        return ok("clock", says, _figures(name, clock.ahead))
    if clock.ahead > 0:
        return _ahead(name, clock.ahead, clock.at_least)
    return warning(
        "clock",
        f"The clock of the standby {name} is {shown(-clock.ahead)} behind the primary's: "
        "after a failover, leases of dead holders stay taken for that much longer.",
        _SYNCHRONISE,
        _figures(name, clock.ahead),
    )


def _ahead(name: str, ahead: float, at_least: float) -> Finding:
    """Returns the finding for a clock that is ahead, judged by the certain part of its offset."""
    says = (
        f"The clock of the standby {name} is {shown(ahead)} ahead of the primary's: "
        "after a failover, leases end that much too early."
    )
    finding = problem if at_least >= FAR_APART else warning
    return finding("clock", says, _SYNCHRONISE, _figures(name, ahead))


def _figures(standby: str, ahead: float) -> dict[str, str | float]:
    return {"standby": standby, "ahead": ahead}


def _apart(clock: Offset) -> str:
    return f"{shown(abs(clock.ahead))} {'ahead of' if clock.ahead >= 0 else 'behind'}"
