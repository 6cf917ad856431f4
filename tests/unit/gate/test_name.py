"""A gate's name and lock keys: no two gates share a lock."""

import itertools

import pytest

from interlock.errors import ConfigurationError
from interlock.gate.name import PRESENT, GateName
from interlock.stores.postgres import AdvisoryKey

GATES = [GateName(*parts) for parts in itertools.product(["shop", "billing"], ["public", "own"], [None, "web", "jobs"])]


def test_a_gate_is_shown_by_database_schema_and_application() -> None:
    assert str(GateName("shop", "public", "web")) == "shop/public/web"
    assert str(GateName("shop", "public")) == "shop/public"


def test_no_two_gates_share_a_key_of_any_kind() -> None:
    keys = [PRESENT, *(key for gate in GATES for key in (gate.lock, gate.waiting))]
    assert len(set(keys)) == len(keys)


def test_parts_cannot_be_confused() -> None:
    assert GateName("a", "bc").lock != GateName("ab", "c").lock


@pytest.mark.parametrize("part", ["", "a/b"])
def test_a_part_that_would_make_two_gates_look_alike_is_refused(part: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be part of a gate's name"):
        GateName("shop", part)
    with pytest.raises(ConfigurationError, match="cannot be part of a gate's name"):
        GateName("shop", "public", part)


def test_invalid_unicode_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="it is not valid Unicode"):
        GateName("shop", "public", "caf\udce9")


def test_keys_are_the_same_in_every_release() -> None:
    assert GateName("shop", "public", "web").lock == AdvisoryKey.of("interlock gate", "shop", "public", "web")
    assert tuple(GateName("shop", "public", "web").lock) == (1130404150, -1579398956)
    assert tuple(PRESENT) == (1412387677, 1513380361)
