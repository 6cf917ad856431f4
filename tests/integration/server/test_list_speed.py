"""The time that a list takes: measured and printed, without a limit."""

import time
from statistics import median
from typing import Any

from support.api import Api
from support.postgres import execute


async def test_fifty_instances_are_listed(api: Api, record_property: Any) -> None:
    execute(
        api.url,
        "INSERT INTO interlock.instance (id, name, driver, orchestration, created_by, created_at, updated_at, host,"
        " port, owner, database, ca, parameters, tags)"
        " SELECT md5(n::text), 'i' || n, 'local', 'none', 'test', now(), now(), '127.0.0.1', n,"
        " 'shop', 'shop', repeat('x', 1500), '{\"work_mem\": \"16MB\"}', '{\"team\": \"blue\"}'"
        " FROM generate_series(1, 50) AS n",
    )
    took = []
    for _ in range(20):
        begun = time.perf_counter()
        assert len((await api.ask("GET", "/instances"))["items"]) == 50
        took.append((time.perf_counter() - begun) * 1000)
    record_property(
        "figure", f"GET /api/v1/instances, 50 of them: median {median(took):.1f} ms, longest {max(took):.1f} ms"
    )
