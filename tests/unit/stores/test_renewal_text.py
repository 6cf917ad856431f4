"""What a renewal says is of the grants that it was asked for, whatever was asked for before."""

from uuid import uuid4

from interlock.coordination.errands import Unwanted
from interlock.stores.postgres.renewal_text import RenewalText


def grant(name: str, token: int) -> Unwanted:
    return Unwanted(name, token, uuid4(), 30.0)


def said(grants: list[Unwanted]) -> tuple[str, str, str]:
    names = "\x1f".join(each.name for each in grants)
    tokens = ",".join(str(each.token) for each in grants)
    return names, f"{{{tokens}}}", f"{{{','.join(each.grant_id.hex for each in grants)}}}"


def test_the_same_grants_are_said_the_same_way_without_being_written_again() -> None:
    text = RenewalText()
    grants = [grant("a", 1), grant("b", 2)]
    first = text.of(grants)
    assert first == said(grants)
    assert text.of(list(grants)) is first


def test_other_grants_are_said_anew() -> None:
    text = RenewalText()
    one, two, three = grant("a", 1), grant("b", 2), grant("c", 3)
    again, renamed = one._replace(token=4), one._replace(name="d")
    for grants in ([one, two], [two, one], [one], [renamed], [one, two], [again, two], [one, two, three], [], [three]):
        assert text.of(grants) == said(grants)
