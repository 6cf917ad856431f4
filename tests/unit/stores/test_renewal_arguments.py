"""A renewal's arguments belong to its own grants, whatever the previous round's were."""

from uuid import uuid4

from interlock.coordination.engine.deferred import OrphanedGrant
from interlock.stores.postgres.renewal_arguments import RenewalArguments


def grant(name: str, token: int) -> OrphanedGrant:
    return OrphanedGrant(name, token, uuid4(), 30.0)


def said(grants: list[OrphanedGrant]) -> tuple[str, bytes]:
    names = "\x1f".join(each.name for each in grants)
    return names, bytes.fromhex("".join(f"{each.token:016x}{each.grant_id.hex}" for each in grants))


def test_the_same_grants_are_said_the_same_way_without_being_written_again() -> None:
    arguments = RenewalArguments()
    grants = [grant("a", 1), grant("b", 2)]
    first = arguments.of(grants)
    assert first == said(grants)
    assert arguments.of(list(grants)) is first


def test_other_grants_are_encoded_again() -> None:
    arguments = RenewalArguments()
    one, two, three = grant("a", 1), grant("b", 2), grant("c", 3)
    again, renamed = one._replace(token=4), one._replace(name="d")
    for grants in ([one, two], [two, one], [one], [renamed], [one, two], [again, two], [one, two, three], [], [three]):
        assert arguments.of(grants) == said(grants)
