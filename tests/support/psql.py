"""The real psql as an operator, or a service in another language, uses it: leases by the SQL functions alone."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from uuid import UUID, uuid4

from interlock.clock import boottime
from interlock.embedded import find_binaries

_END = "-- that was all --"


@dataclass(frozen=True)
class Grant:
    """A grant that psql received.

    Trust is counted by docs/reference/protocol.md: from before the request, less a tenth of the ttl.
    """

    name: str
    token: int
    grant_id: UUID
    trusted_until: float

    @property
    def remaining(self) -> float:
        return max(0.0, self.trusted_until - boottime())

    @property
    def triple(self) -> str:
        return f"'{self.name}', {self.token}, '{self.grant_id}'"


class Psql:
    """One session, for one command after the other. An error is an answer that begins with ERROR and its SQLSTATE."""

    def __init__(self, url: str) -> None:
        pg_bin = os.environ.get("INTERLOCK_PG_BIN")
        program = find_binaries(Path(pg_bin) if pg_bin else None).tool("psql")
        self._process = subprocess.Popen(
            [program, "-XqAt", "-v", "VERBOSITY=verbose", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.communicate()

    def run(self, command: str) -> list[str]:
        """The lines of its answer. Notifications that came meanwhile are at the end."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{command.strip().rstrip(';')};\n\\echo {_END}\n")
        self._process.stdin.flush()
        said: list[str] = []
        for line in self._process.stdout:
            if line.strip() == _END:
                return said
            said.append(line.rstrip("\n"))
        raise AssertionError(f"psql ended: {said}")

    def ask(
        self,
        name: str,
        *,
        ttl: float = 30,
        wait: bool = False,
        grant_id: UUID | None = None,
        listener: int | None = None,
    ) -> tuple[str, Grant | None]:
        """The status, and the grant if there is one."""
        chosen = grant_id or uuid4()
        options = f"wait => {wait}, listener => {'NULL' if listener is None else listener}"
        sent_at = boottime()
        ((status, token, remaining),) = self._rows(
            f"SELECT status, token, remaining FROM interlock.acquire_v1('{name}', '{chosen}', {ttl}, 'psql', {options})"
        )
        if status != "granted":
            return status, None
        return status, Grant(name, int(token), chosen, sent_at + float(remaining) - ttl / 10)

    def acquire(self, name: str, *, ttl: float = 30) -> Grant:
        status, grant = self.ask(name, ttl=ttl)
        assert grant, status
        return grant

    def renew(self, grant: Grant) -> str:
        return self._rows(f"SELECT status FROM interlock.renew_v1({grant.triple}, 30)")[0][0]

    def release(self, grant: Grant) -> str:
        return self._rows(f"SELECT status FROM interlock.release_v1({grant.triple})")[0][0]

    def write(self, grant: Grant, statement: str) -> list[str]:
        """Write in a transaction under the guard. After an error the server ignores the rest of the transaction."""
        return self.run(f"BEGIN; SELECT interlock.guard_v1({grant.triple}); {statement}; COMMIT")

    def _rows(self, query: str) -> list[list[str]]:
        return [line.split("|") for line in self.run(query)]
