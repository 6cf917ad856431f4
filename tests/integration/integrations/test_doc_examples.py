"""The examples of docs/how-to/tooz.md and docs/how-to/schedulers.md run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

from support.programs import environment

DOCS = Path(__file__).parents[3] / "docs" / "how-to"
(TOOZ,) = re.findall(r"```python\n(.*?)```", (DOCS / "tooz.md").read_text(), re.DOTALL)
APSCHEDULER, CELERY = re.findall(r"```python\n(.*?)```", (DOCS / "schedulers.md").read_text(), re.DOTALL)

LEADING = """
import time
while scheduler.term is None:
    time.sleep(0.01)
report()
scheduler.shutdown()
locks.close()
"""

TICKING = """
app.conf.broker_url = "memory://"
app.conf.beat_schedule = {"sweep": {"task": "shop.sweep", "schedule": 3600.0}}
from celery.beat import Service
scheduler = Service(app, scheduler_cls=app.conf.beat_scheduler).get_scheduler()
while not scheduler.tick():
    pass
print(type(scheduler).__name__, scheduler.info.split()[-1])
scheduler.close()
"""


def said(program: str, url: str) -> str:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment(url), capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_example_for_tooz_runs(interlock_url: str) -> None:
    ours = TOOZ.replace("postgresql://user:password@host/database", interlock_url)
    assert ours != TOOZ
    token, elected = said(ours, interlock_url).splitlines()
    assert int(token) > 0
    assert elected == "we lead"


def test_the_example_for_apscheduler_runs(interlock_url: str) -> None:
    assert int(said(APSCHEDULER + LEADING, interlock_url)) > 0


def test_the_example_for_celery_runs(interlock_url: str) -> None:
    assert said(CELERY + TICKING, interlock_url) == "LedScheduler shop\n"
