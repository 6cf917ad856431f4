"""A Celery application whose beat runs in several replicas. Its broker is a directory."""

import os
from pathlib import Path

from celery import Celery

QUEUE = Path(os.environ.get("BEAT_DIRECTORY", "."))

app = Celery("shop", broker="filesystem://")
app.conf.update(
    beat_scheduler="interlock.integrations.celery:LedScheduler",
    beat_schedule={"sweep": {"task": "shop.sweep", "schedule": 0.2}},
    broker_transport_options={
        "data_folder_in": str(QUEUE / "messages"),
        "data_folder_out": str(QUEUE / "messages"),
        "control_folder": str(QUEUE / "control"),
    },
    interlock_beat_lease="beat of the shop",
    interlock_beat_ttl=4.0,
)
