"""The errors of a connection that cannot be opened, as a program shows them."""

import traceback

import pytest

from interlock import AsyncInterlock, errors


async def test_an_unreachable_database_is_one_error_without_the_frames_of_the_driver() -> None:
    with pytest.raises(errors.DatabaseUnreachable, match=r"No database answers at .*: check the address") as refused:
        await AsyncInterlock("postgresql://nobody@127.0.0.1:1/shop").open()
    shown = "".join(traceback.format_exception(refused.value))
    assert "Errno" in shown
    assert shown.count("Traceback") == 1
    assert "asyncpg" not in shown
