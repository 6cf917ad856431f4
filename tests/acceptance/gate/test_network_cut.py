"""The network between a migrator and its database is cut without a packet."""

import pytest

from support.gates import is_held, waiters
from support.migrations import long_by_psycopg, running_long, tells_what_it_meets
from support.programs import started
from support.proxy import cable_to
from support.waiting import eventually

pytestmark = pytest.mark.exhaustive


def test_a_migrator_that_is_cut_off_stops_its_command_and_another_takes_over(interlock_url: str) -> None:
    options = ("gate", "run", "--gate-ttl", "6")
    with (
        cable_to(interlock_url) as (cable, cut_url),
        # The command itself has another route: it could work on, and must not.
        started(*options, "--", *long_by_psycopg(interlock_url), url=cut_url) as first,
    ):
        eventually(lambda: running_long(interlock_url))
        with started(*options, "--", *tells_what_it_meets(interlock_url), url=interlock_url) as second:
            eventually(lambda: waiters(interlock_url))
            cable.cut()
            status, output, error = second.end()
            assert status == 0, error
            assert output.split()[1] == "0"
            status, _, error = first.end()
    assert status == 74
    assert "was lost while migrating" in error
    assert not is_held(interlock_url)
