"""Checks Interlock's schema, and the role's privileges on it."""

from collections.abc import Iterator

from interlock.doctor.facts import DatabaseFacts, Need, Privilege
from interlock.doctor.result import Finding, ok, problem, warning
from interlock.errors import EX_NOPERM, SchemaError
from interlock.schema import State, newest_version

_SHOWN = 3


def schema(facts: DatabaseFacts) -> Iterator[Finding]:
    if facts.schema is None:
        yield problem(
            "schema",
            "The role may not read Interlock's schema, so it is unknown if the schema is current.",
            _grant(facts),
            exit_status=EX_NOPERM,
        )
        return
    name, state = facts.schema.schema, facts.schema.state
    try:
        facts.schema.require()
    except SchemaError as error:
        yield problem("schema", str(error), facts={"state": state.value}, exit_status=error.exit_status)
    else:
        newest = max(step.version for step in facts.schema.applied)
        newer = (
            f", newer than this release ({newest_version()}), which can work with it" if state is State.NEWER else ""
        )
        yield ok(
            "schema", f"The schema {name!r} is at version {newest}{newer}.", {"state": state.value, "version": newest}
        )


def privileges(facts: DatabaseFacts) -> Iterator[Finding]:
    """Checks the role's privileges. If the role has none for a part of Interlock, that is taken as intended.

    If the role has only some of the privileges for a part, as after a grant by an older release, that is a problem.
    """
    if facts.schema is not None and facts.schema.state in (State.MISSING, State.FOREIGN):
        yield _may_create(facts)
        return
    uses = [use for use in facts.needs if not any(facts.held[need] is Privilege.ABSENT for need in facts.needs[use])]
    whole = [use for use in uses if not lacking(facts, use)]
    broken = [use for use in uses if use not in whole and is_granted(facts, use)]
    for use in broken:
        yield problem(
            "privileges",
            f"The role {facts.role} cannot use {use}: it lacks {_some(lacking(facts, use))}.",
            _grant(facts, f" --for {use}"),
            exit_status=EX_NOPERM,
        )
    if whole and not broken:
        rest = [use for use in uses if use not in whole]
        but = f", but not {_listed(rest)}" if rest else ""
        yield ok("privileges", f"The role {facts.role} may use {_listed(whole)}{but}.", {"uses": whole})
    elif not broken:
        yield problem(
            "privileges",
            f"The role {facts.role} may not use any part of Interlock.",
            _grant(facts),
            exit_status=EX_NOPERM,
        )


def lacking(facts: DatabaseFacts, use: str) -> list[Need]:
    return [need for need in facts.needs[use] if facts.held[need] is Privilege.NO]


def is_granted(facts: DatabaseFacts, use: str) -> bool:
    """True if the role has a privilege that only this part needs, and that PUBLIC does not have."""
    elsewhere = {need for other in facts.needs if other != use for need in facts.needs[other]}
    return any(facts.held[need] is Privilege.YES for need in facts.needs[use] if need not in elsewhere)


def _may_create(facts: DatabaseFacts) -> Finding:
    if facts.may_create_schema:
        return ok("privileges", f"The role {facts.role} may create the schema.")
    return warning(
        "privileges",
        f"The role {facts.role} may not create the schema.",
        f"Let an owner of the database run `interlock schema apply` and `interlock schema grant {facts.role}`.",
    )


def _grant(facts: DatabaseFacts, only: str = "") -> str:
    return f"Let the schema's owner run `interlock schema grant {facts.role}{only}`."


def _listed(words: list[str]) -> str:
    return ", ".join(words[:-1]) + f" and {words[-1]}" if len(words) > 1 else words[0]


def _some(needs: list[Need]) -> str:
    """Names a few of the needed privileges, because a new release may add dozens."""
    more = [f"{len(needs) - _SHOWN} more"] if len(needs) > _SHOWN else []
    return _listed([str(need) for need in needs[:_SHOWN]] + more)
