"""The status of leases, as text and as JSON."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from interlock.cli.lease_presentation import (
    broken_as_json,
    broken_as_text,
    details_as_json,
    lease_as_json,
    lease_as_text,
    leases_as_table,
)
from interlock.cli.output import to_json
from interlock.coordination.operators.status import (
    Broken,
    Guard,
    Holding,
    Intervention,
    LeaseDetails,
    LeaseStatus,
    Party,
    Waiter,
)

NOW = datetime(2031, 1, 1, 12, 0, tzinfo=UTC)
PARTY = Party("web-1", "host-1", 4711)
HOLDING = Holding(PARTY, {"job": "nightly"}, 30, NOW - timedelta(minutes=5), NOW - timedelta(seconds=4))
HELD = LeaseStatus("feeds", "held", 77, HOLDING, NOW + timedelta(seconds=26), 26.0, 0, NOW)
RELEASED = replace(HELD, state="free", expires_at=None, remaining=0.0)


def told(lease: LeaseStatus, **more: object) -> list[str]:
    details = LeaseDetails(lease, waiting=(), guards=(), intervention=None)
    return lease_as_text(replace(details, **more)).splitlines()  # type: ignore[arg-type]


def test_a_held_lease() -> None:
    assert told(HELD) == [
        "The lease 'feeds' is held by web-1 (process 4711 on host-1).",
        "It has held it since 2031-01-01 11:55:00 UTC, for 5 min now, with the token 77.",
        "Its last heartbeat came 4.0 s ago; without another the lease expires in 26 s (its ttl is 30 s).",
        'Its metadata: {"job": "nightly"}',
        "No process waits for it.",
    ]


@pytest.mark.parametrize(
    ("party", "words"),
    [
        (Party("web-1", None, None), "held by web-1."),
        (Party("web-1", "host-1", None), "held by web-1 (on host-1)."),
        (Party("web-1", None, 4711), "held by web-1 (process 4711)."),
        (Party(None, None, None), "held by a process without a name."),
    ],
)
def test_a_holder_with_few_known_facts(party: Party, words: str) -> None:
    """Clients in other languages may leave out their name, host and process."""
    assert told(replace(HELD, last=replace(HOLDING, party=party)))[0].endswith(words)


def test_a_released_lease() -> None:
    assert told(RELEASED) == [
        "The lease 'feeds' is free.",
        "It was last held by web-1 (process 4711 on host-1), whose last heartbeat came at 2031-01-01 11:59:56 UTC.",
        "No process waits for it.",
    ]


def test_an_expired_lease() -> None:
    expired = replace(RELEASED, expires_at=NOW - timedelta(hours=3))
    assert told(expired)[2] == "It expired 3 h ago: that holder did not release it."


def test_a_lease_that_was_never_held() -> None:
    assert told(replace(RELEASED, last=None))[0] == "The lease 'feeds' is free, and was never held."


def test_a_broken_lease_without_a_known_operator() -> None:
    """A failover leaves such leases."""
    first, second, *_ = told(replace(HELD, state="broken"))
    assert first.endswith("(process 4711 on host-1), by force or because another server took over the database.")
    assert second == "It is free in 26 s at the latest: until then its last holder may trust it."


@pytest.mark.parametrize(("reason", "end"), [("stuck", ": stuck"), (None, ", without a reason.")])
def test_a_broken_lease_with_its_operator_and_reason(reason: str | None, end: str) -> None:
    intervention = Intervention(77, False, (), reason, "dba/ann@host-9", NOW - timedelta(seconds=9))
    first, _, broken, *_ = told(replace(HELD, state="broken"), intervention=intervention)
    assert first == "The lease 'feeds' was taken from web-1 (process 4711 on host-1)."
    assert broken == f"It was broken at 2031-01-01 11:59:51 UTC by dba/ann@host-9{end}"


def test_guards_are_shown_with_the_facts_that_the_role_may_see() -> None:
    known = Guard(101, "shop", "billing", "idle in transaction", NOW, 12.3)
    hidden = Guard(102, "other", None, None, None, None)
    gone = Guard(103, None, None, None, None, None)
    assert told(RELEASED, guards=(known, hidden, gone))[:1] + told(RELEASED, guards=(known, hidden, gone))[2:5] == [
        "The lease 'feeds' is free, but a transaction still guards it: the next holder gets it when that has ended.",
        "A transaction of server process 101 guards it (role shop, billing, idle in transaction, open for 12 s).",
        "A transaction of server process 102 guards it (role other).",
        "A transaction of server process 103 guards it (of another role).",
    ]


def test_waiters_are_shown_in_order() -> None:
    waiting = tuple(Waiter(Party(f"web-{n}", "host-2", n), NOW, 100.0 / n) for n in (2, 3))
    assert told(HELD, waiting=waiting)[-3:] == [
        "2 processes wait for it, in this order:",
        "   1. web-2 (process 2 on host-2), for 50 s",
        "   2. web-3 (process 3 on host-2), for 33 s",
    ]
    assert told(HELD, waiting=waiting[:1])[-2] == "1 process waits for it:"


def test_control_characters_are_escaped() -> None:
    nasty = "\x1b[2J\nfree\u202e"
    party = Party(nasty, nasty, 1)
    lease = replace(HELD, name=nasty, last=replace(HOLDING, party=party, metadata={nasty: nasty}))
    details = LeaseDetails(
        lease,
        (Waiter(party, NOW, 1.0),),
        (Guard(1, nasty, nasty, "idle", NOW, 1.0),),
        Intervention(77, False, (), nasty, nasty, NOW),
    )
    for text in (
        lease_as_text(details),
        leases_as_table([lease], None),
        broken_as_text(Broken(nasty, 1, party, 1.0, ()), immediate=True),
    ):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "\nfree" not in text


def test_a_table_of_leases() -> None:
    leases = [HELD, replace(HELD, name="longer-name", state="broken", waiters=12), replace(RELEASED, name="z")]
    assert leases_as_table(leases, None).splitlines() == [
        "NAME         STATE   HOLDER  SINCE      REMAINING  WAITERS",
        "feeds        held    web-1   5 min ago  26 s       0",
        "longer-name  broken                     26 s       12",
        "z            free                                  0",
    ]


def test_a_free_lease_has_no_holder_in_json() -> None:
    held, free = to_json(lease_as_json(HELD)), to_json(lease_as_json(RELEASED))
    assert held["holder"]["name"] == free["last_holder"]["name"] == "web-1"
    assert held["holder"]["acquired_at"] == "2031-01-01T11:55:00+00:00"
    assert (held["state"], free["state"], free["holder"], free["expires_at"]) == ("held", "free", None, None)
    assert lease_as_json(replace(RELEASED, last=None))["last_holder"] is None
    details = LeaseDetails(
        HELD,
        (Waiter(PARTY, NOW, 1.5),),
        (Guard(101, "shop", None, None, NOW, 1.0),),
        Intervention(77, True, (101,), None, "dba/ann@host-9", NOW),
    )
    facts = json.loads(json.dumps(to_json(details_as_json(details))))
    assert facts["waiting"] == [
        {"name": "web-1", "host": "host-1", "pid": 4711, "enqueued_at": NOW.isoformat(), "waited": 1.5}
    ]
    assert facts["guards"][0]["pid"] == 101
    assert facts["intervention"]["terminated"] == [101]


def test_the_report_of_a_break() -> None:
    broken = Broken("feeds", 77, PARTY, 26.0, (101, 102))
    assert broken_as_text(broken, immediate=False).splitlines() == [
        "The lease 'feeds' was taken from web-1 (process 4711 on host-1).",
        "Ended, with their transactions that guarded it: server process 101, 102.",
        "Its holder is notified at its next renewal, and has to stop then.",
        "The next waiter gets it once that holder has released it, and in 26 s at the latest.",
    ]
    assert to_json(broken_as_json(broken))["last_holder"] == {"name": "web-1", "host": "host-1", "pid": 4711}
    at_once = broken_as_text(replace(broken, remaining=0.0, terminated=()), immediate=True)
    assert at_once.splitlines()[2].startswith("The next waiter gets it at once")


def test_the_table_fits_a_hundred_columns_and_shortens_the_holders_name() -> None:
    party = replace(PARTY, name="shop-import-worker-7d4b9c6f58-x2x9k-4711-f3c2a1-0123456789abcdef0123456789")
    lease = replace(HELD, name="import:" + "x" * 30, last=replace(HOLDING, party=party), remaining=86000.0)
    header, row = leases_as_table([lease], None).splitlines()
    assert max(len(header), len(row)) <= 100
    assert row.split()[0] == lease.name
    assert row.split()[2].startswith("shop-import")
    assert "…" in row.split()[2]
    assert row.split()[-1] == "0"
