"""`interlock up` on a data directory of its own."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from psycopg import sql

from benchmarks.servers.postgres import execute
from benchmarks.servers.process import free_port, running
from benchmarks.waiting import wait_until
from interlock.embedded import running_url

_INTERLOCK = str(Path(sys.executable).parent / "interlock")
_COMMITTED = "SELECT sum(xact_commit + xact_rollback)::bigint FROM pg_stat_database"
_TIMEOUT = 30.0


class ControlPlane:
    def __init__(self, data_dir: Path, port: int) -> None:
        self._data_dir = data_dir
        key = (data_dir / "api-key").read_text().strip()
        self._client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=_TIMEOUT
        )

    @property
    def pid(self) -> int:
        [described] = (self._data_dir / "servers").glob("*.json")
        return int(json.loads(described.read_text())["pid"])

    @property
    def postmaster(self) -> int:
        return int((self._data_dir / "postgres" / "data" / "postmaster.pid").read_text().split()[0])

    def get(self, path: str, **query: Any) -> Any:
        return self._client.get(path, params=query).raise_for_status().json()

    def post(self, path: str, body: Any) -> Any:
        return self._client.post(path, json=body).raise_for_status().json()

    def delete(self, path: str) -> Any:
        return self._client.delete(path).raise_for_status().json()

    def transactions(self) -> int:
        """The number of transactions that its database has completed so far."""
        url = running_url(self._data_dir / "postgres")
        assert url is not None
        [[count]] = execute(url, sql.SQL(_COMMITTED))
        return int(count)

    def close(self) -> None:
        self._client.close()


@contextmanager
def control_plane(directory: Path, **settings: str) -> Iterator[ControlPlane]:
    """Ready for requests. `settings` are environment variables, without ``INTERLOCK_``."""
    data_dir, port = directory / "data", free_port()
    environment = {f"INTERLOCK_{name.upper()}": value for name, value in settings.items()}
    command = [_INTERLOCK, "up", "--port", str(port), "--data-dir", str(data_dir)]
    with running(command, directory, port, **environment):
        wait_until(lambda: _is_ready(port), what="interlock up is ready")
        plane = ControlPlane(data_dir, port)
        try:
            yield plane
        finally:
            plane.close()


def _is_ready(port: int) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/health/ready", timeout=_TIMEOUT).is_success
    return False
