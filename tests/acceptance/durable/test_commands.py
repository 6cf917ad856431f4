"""`interlock orchestration` on a database where a replica has worked."""

import json
import os

import pytest

from interlock import AsyncDurable, OrchestrationFailed
from support.durable_domain import TABLES, Order, deliver, work
from support.postgres import execute
from support.programs import interlock


@pytest.fixture
async def url(interlock_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """One orchestration that completed, one that failed, one that was recorded."""
    monkeypatch.setenv("STEPS_URL", interlock_url)
    execute(interlock_url, TABLES)
    async with AsyncDurable(work, url=interlock_url) as durable:
        await (await durable.start(deliver, "good", Order("good", 3))).wait(50)
        with pytest.raises(OrchestrationFailed):
            await (await durable.start(deliver, "bad", Order("bad", 1000))).wait(50)
    async with AsyncDurable(work, url=interlock_url, concurrency=0) as asking:
        await asking.start(deliver, "waits", Order("waits", 1))
    return interlock_url


def said(*args: str, url: str) -> str:
    done = interlock("orchestration", *args, url=url, PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_orchestrations_are_listed_shown_and_cancelled(url: str) -> None:
    states = {one["id"]: one["state"] for one in json.loads(said("list", "--json", url=url))}
    assert states.items() >= {"good": "completed", "bad": "failed", "waits": "recorded"}.items()
    assert "good: completed, shop.deliver 1.0.0" in said("list", "go", url=url)
    shown = said("show", "bad", url=url)
    assert "error: too_expensive: The activity 'shop.charge' failed: The account has too little money." in shown
    assert json.loads(said("show", "good", "--json", url=url))["result"] == 3
    kinds = [event["kind"] for event in json.loads(said("history", "good", "--json", url=url))]
    assert (kinds[0], kinds[-1]) == ("OrchestrationStarted", "OrchestrationCompleted")
    assert "ActivityScheduled shop.reserve" in said("history", "good", url=url)
    assert said("cancel", "waits", "--reason", "changed my mind", url=url) == "waits will be cancelled.\n"
    assert json.loads(said("show", "waits", "--json", url=url))["state"] == "cancelling"


def test_an_unknown_orchestration_is_one_line(interlock_url: str) -> None:
    done = interlock("orchestration", "cancel", "unknown", url=interlock_url)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "no orchestration 'unknown'" in done.stderr
    done = interlock("orchestration", "list", url=interlock_url)
    assert (done.returncode, done.stderr) == (
        1,
        "interlock: No replica has run orchestrations on this database yet: start one, or check --database.\n",
    )
