"""The accepted difference between the database's clock and this machine's, with quick and slow answers."""

import pytest

from interlock import AsyncDurable, Orchestrations, errors
from interlock.durable import replica


class Clocks:
    """Each answer takes that long. The database is `ahead`, and reads its clock at the `end` of a request."""

    def __init__(self, *answers: float, ahead: float = 0.0, end: bool = False) -> None:
        self._answers = list(answers)
        self._ahead = ahead
        self._share = 1.0 if end else 0.5
        self._now = 1000.0

    def time(self) -> float:
        return self._now

    async def value(self, name: str) -> float:
        took, began_at = self._answers.pop(0), self._now
        self._now += took
        return began_at + took * self._share + self._ahead


async def check(monkeypatch: pytest.MonkeyPatch, clocks: Clocks) -> None:
    durable = AsyncDurable(Orchestrations(), url="postgresql://nowhere/none")
    monkeypatch.setattr(durable, "_database", clocks, raising=False)
    monkeypatch.setattr(replica, "time", clocks)
    await durable._check_clock()


@pytest.mark.parametrize("answers", [(0.01, 0.01), (8.0, 0.01), (0.01, 8.0), (8.0, 8.0)])
async def test_a_slow_answer_is_not_taken_for_a_clock_that_is_off(
    monkeypatch: pytest.MonkeyPatch, answers: tuple[float, float]
) -> None:
    await check(monkeypatch, Clocks(*answers, end=True))


@pytest.mark.parametrize("answers", [(0.01, 0.01), (8.0, 0.01), (0.01, 8.0)])
@pytest.mark.parametrize("ahead", [2.5, -2.5])
async def test_the_quicker_of_two_answers_counts(
    monkeypatch: pytest.MonkeyPatch, answers: tuple[float, float], ahead: float
) -> None:
    with pytest.raises(errors.ClockSkewed, match=r"differ by -?2\.5 s"):
        await check(monkeypatch, Clocks(*answers, ahead=ahead))
