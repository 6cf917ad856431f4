"""The cost of a block under a lease in this process: function calls are counted, not timed."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import interlock
from interlock import AsyncInterlock

OURS = str(Path(interlock.__file__).parent)
BLOCKS = 100


@pytest.mark.parametrize(("confirm_release", "most"), [(True, 128), (False, 126)])
async def test_a_block_calls_no_more_functions_than_before(
    interlock_url: str, record_property: Any, confirm_release: bool, most: int
) -> None:
    """Each call costs a quarter of a microsecond or more in every acquire; a call that is resumed counts again."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(OURS)

    async with AsyncInterlock(interlock_url) as locks:
        lease = locks.lease("counted", ttl=30, confirm_release=confirm_release)
        for counting in (False, True):
            sys.setprofile(count if counting else None)
            try:
                for _ in range(BLOCKS):
                    async with lease:
                        pass
            finally:
                sys.setprofile(None)
    each = calls / BLOCKS
    how = "confirmed" if confirm_release else "not confirmed"
    record_property("figure", f"functions of Interlock called by a block, release {how}: {each:.0f}")
    assert each <= most
