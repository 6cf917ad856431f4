"""A driver and a name server on paper: their instances and records are rows of two tables, so tests can count them.

They answer at once. Where they say that an instance listens there is a real one of the driver `local`, which all share.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal, cast

import psycopg

from interlock.dns.port import Published
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Observation, Observed, Spec
from interlock.names import host_name
from interlock.tls.certificate import Certificate

TABLES = """
    CREATE TABLE paper (id text PRIMARY KEY, name text, state text, parameters text, resets integer DEFAULT 0,
                        storage bigint, certificate text);
    CREATE TABLE published (name text PRIMARY KEY, target text, id text);
"""
SHARED = "shared"
"""The id of the real instance."""


class PaperDriver:
    name = "paper"
    can_resize = True
    can_use_certificate = True

    def __init__(self, url: Callable[[], str], real: Callable[[], LocalDriver]) -> None:
        self._url = url
        self._real = real

    async def check(self, spec: Spec) -> None:
        """Does nothing."""

    async def provision(self, spec: Spec) -> None:
        await self._write(
            "INSERT INTO paper (id, name, state) VALUES (%s, %s, 'running')"
            " ON CONFLICT (id) DO UPDATE SET state = 'running'",
            spec.id,
            spec.name,
        )

    async def observe(self, id: str) -> Observation:  # noqa: A002
        found = await self._write("SELECT state FROM paper WHERE id = %s", id)
        if not found:
            return Observation("absent")
        return Observation(cast(Observed, found[0][0]), (await self._real().observe(SHARED)).endpoint)

    async def start(self, id: str) -> None:  # noqa: A002
        await self._write("UPDATE paper SET state = 'running' WHERE id = %s", id)

    async def stop(self, id: str) -> None:  # noqa: A002
        await self._write("UPDATE paper SET state = 'stopped' WHERE id = %s", id)

    async def remove(self, id: str) -> None:  # noqa: A002
        await self._write("DELETE FROM paper WHERE id = %s", id)

    async def password(self, id: str) -> str:  # noqa: A002
        return await self._real().password(SHARED)

    async def reset_password(self, id: str) -> None:  # noqa: A002
        await self._write("UPDATE paper SET resets = resets + 1 WHERE id = %s", id)

    async def set_parameters(
        self,
        id: str,  # noqa: A002
        parameters: Mapping[str, str],
    ) -> Literal["reloaded", "restart needed"]:
        await self._write("UPDATE paper SET parameters = %s WHERE id = %s", str(dict(parameters)), id)
        return "restart needed" if "max_connections" in parameters else "reloaded"

    async def resize(self, id: str, storage_bytes: int) -> None:  # noqa: A002
        await self._write("UPDATE paper SET storage = %s WHERE id = %s", storage_bytes, id)

    async def use_certificate(self, id: str, certificate: Certificate | None) -> None:  # noqa: A002
        await self._write("UPDATE paper SET certificate = %s WHERE id = %s", certificate and certificate.chain, id)

    async def logs(self, id: str, *, lines: int = 100, follow: bool = False) -> AsyncIterator[str]:  # noqa: A002
        yield "There is nothing to tell."

    async def ids(self) -> Mapping[str, str]:
        return dict(await self._write("SELECT id, name FROM paper"))

    async def _write(self, statement: str, *args: Any) -> list[tuple[Any, ...]]:
        return await _written(self._url(), statement, *args)


class PaperDns:
    def __init__(self, url: Callable[[], str]) -> None:
        self._url = url

    def full_name(self, name: str) -> str:
        return host_name(name)

    async def check(self, name: str, owner: str) -> None:
        host_name(name)

    async def publish(self, name: str, target: str, owner: str) -> None:
        insert = "INSERT INTO published VALUES (%s, %s, %s) ON CONFLICT (name) DO UPDATE SET target = excluded.target"
        await _written(self._url(), insert, name, target, owner)

    async def withdraw(self, name: str, owner: str) -> None:
        await _written(self._url(), "DELETE FROM published WHERE name = %s AND id = %s", name, owner)

    async def lookup(self, name: str) -> Published:
        rows = await _written(self._url(), "SELECT id, target FROM published WHERE name = %s", name)
        return Published(rows[0][0], (rows[0][1],)) if rows else Published()


async def _written(url: str, statement: str, *args: Any) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        cursor = await connection.execute(statement, args or None)
        return await cursor.fetchall() if cursor.description else []
