"""A pooler in transaction mode would hand two replicas the same lock; the gate does not go through one."""

import pytest

from interlock import AsyncGate, errors
from support.pooler import PoolMode, pooled
from support.programs import interlock

either_mode = pytest.mark.parametrize("mode", ["transaction", "session"])


@either_mode
def test_only_a_pooler_that_is_stated_to_be_in_session_mode_is_gone_through(mode: PoolMode, interlock_url: str) -> None:
    with pooled(interlock_url, mode) as url:
        plain = interlock("gate", "run", "--", "true", url=url)
        assert plain.returncode == 78
        assert "is a connection pooler" in plain.stderr
        assert "--session-pooler" in plain.stderr
        assert "Traceback" not in plain.stderr
        if mode == "session":
            stated = interlock("gate", "run", "--session-pooler", "--", "true", url=url)
            assert stated.returncode == 0, stated.stderr


async def test_a_pooler_that_is_wrongly_stated_to_be_in_session_mode_is_found_out(interlock_url: str) -> None:
    with pooled(interlock_url, "transaction") as url, pytest.raises(errors.PoolerRefused, match="in transaction mode"):
        await AsyncGate("shop", url=url, session_pooler=True).enter()


async def test_a_pooler_in_session_mode_keeps_the_gate_to_one(interlock_url: str) -> None:
    with pooled(interlock_url, "session") as url:
        async with AsyncGate("shop", url=url, session_pooler=True) as first:
            with pytest.raises(errors.GateBusy):
                await AsyncGate("shop", url=url, session_pooler=True, policy="fail").enter()
            first.check()
