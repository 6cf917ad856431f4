"""A pooler in transaction mode would give two replicas the same lock; the gate refuses one."""

import pytest

from interlock import AsyncGate, errors
from support.pooler import PoolMode, pooled
from support.programs import interlock

either_mode = pytest.mark.parametrize("mode", ["transaction", "session"])


@either_mode
def test_only_a_pooler_that_is_stated_to_be_in_session_mode_is_used(mode: PoolMode, interlock_url: str) -> None:
    with pooled(interlock_url, mode) as url:
        plain = interlock("gate", "run", "--", "true", url=url)
        assert plain.returncode == 78
        assert "is a connection pooler" in plain.stderr
        assert "--session-pooler" in plain.stderr
        assert "Traceback" not in plain.stderr
        if mode == "session":
            stated = interlock("gate", "run", "--session-pooler", "--", "true", url=url)
            assert stated.returncode == 0, stated.stderr


async def test_a_pooler_that_is_wrongly_stated_to_be_in_session_mode_is_detected(interlock_url: str) -> None:
    with pooled(interlock_url, "transaction") as url, pytest.raises(errors.PoolerRefused, match="in transaction mode"):
        await AsyncGate("shop", url=url, session_pooler=True).enter()


async def test_a_pooler_in_session_mode_lets_one_replica_in(interlock_url: str) -> None:
    with pooled(interlock_url, "session") as url:
        async with AsyncGate("shop", url=url, session_pooler=True) as first:
            with pytest.raises(errors.GateBusy):
                await AsyncGate("shop", url=url, session_pooler=True, policy="fail").enter()
            first.check()
