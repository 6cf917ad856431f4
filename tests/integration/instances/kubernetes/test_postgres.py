"""A real PostgreSQL accepts the files of the ConfigMap and of the Secret.

The image itself is not run here. The test does the same with the files: it creates a cluster with the superuser
`postgres`, starts the server with the pod's arguments, and runs the SQL of the first start on its socket.
"""

import base64
import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import asyncpg
import pytest

from interlock.embedded import find_binaries
from interlock.embedded.accounts import account_for
from interlock.embedded.install import within_reach
from interlock.embedded.processes import environment, run
from interlock.errors import DatabaseUnreachable
from interlock.instances.client import reach
from interlock.instances.drivers.kubernetes import credentials, postgresql_conf
from interlock.instances.drivers.owner import new_password
from interlock.instances.drivers.port import Driver, Endpoint
from interlock.tls.self_signed import self_signed
from support.postgres import open_directory
from support.waiting import eventually

NAME = 'it\'s "quoted" \\ ünï'
PARAMETERS = {
    "work_mem": "7MB",
    "application_name": "back\\slash's",
    "my.own_setting": "x y",
    "default_transaction_read_only": "on",
}


@dataclass(frozen=True)
class Server:
    port: int
    sockets: Path
    password: str
    ca: str
    program: Path

    async def connect(self, user: str, database: str, *, tls: bool = True, password: str | None = None) -> str:
        trusting = ssl.create_default_context(cadata=self.ca) if tls else False
        connection = await asyncpg.connect(
            host="localhost",
            port=self.port,
            user=user,
            database=database,
            password=password or self.password,
            ssl=trusting,
        )
        try:
            return str(await connection.fetchval("SELECT current_user"))
        finally:
            await connection.close()

    def psql(self, statements: str) -> "subprocess.CompletedProcess[str]":
        """Run psql as the driver does inside the pod, where the socket is at its usual place."""
        where = ["-h", str(self.sockets), "-p", str(self.port)]
        command = [str(self.program), *credentials.PSQL[1:], *where]
        return subprocess.run(command, input=statements, capture_output=True, encoding="utf-8", check=False)

    async def on_socket(self, statement: str) -> str:
        connection = await asyncpg.connect(host=str(self.sockets), port=self.port, user="postgres", database="postgres")
        try:
            return str(await connection.fetchval(statement))
        finally:
            await connection.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with open_directory("interlock-pod-") as root:
        account = account_for()
        pg_bin = os.environ.get("INTERLOCK_PG_BIN")
        binaries = within_reach(find_binaries(Path(pg_bin) if pg_bin else None), account, root)
        places = {name: root / name for name in ("data", "configuration", "secret", "sockets")}
        for place in places.values():
            place.mkdir()
            os.chown(place, account.uid, account.gid)
        password = new_password()
        secret = credentials.contents(NAME, password, ["pg-x.databases.svc"])
        given = {name: base64.b64decode(value) for name, value in secret.items()}
        for name, value in given.items():
            _put(places["secret"] / name, value, account.gid)
        strings = {name: str(place) for name, place in places.items()}
        files = postgresql_conf.files(
            PARAMETERS, directory=strings["configuration"], secrets=strings["secret"], data=strings["data"]
        )
        for name, text in files.items():
            (places["configuration"] / name).write_text(text)
            (places["configuration"] / name).chmod(0o644)
        made = run([binaries.initdb, "-D", places["data"], "-U", "postgres", "--no-sync", "--encoding=UTF8"], account)
        assert made[0] == 0, made
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        arguments = ["-c", f"config_file={places['configuration'] / postgresql_conf.CONF}"]  # the container's
        log = (root / "log").open("w")
        process = subprocess.Popen(
            [binaries.postgres, "-D", places["data"], *arguments, "-p", str(port), "-k", places["sockets"]],
            user=account.switch_user,
            group=account.switch_group,
            extra_groups=account.switch_groups,
            env=environment(binaries.bin_dir),
            stdout=log,
            stderr=log,
            cwd="/",
        )
        try:
            ca = given[credentials.CERTIFICATE].decode()
            server = Server(port, places["sockets"], password, ca, binaries.tool("psql"))
            _first_start(server, process, given[credentials.FIRST_START].decode(), root / "log")
            yield server
        finally:
            process.kill()
            process.wait()
            log.close()


def _put(path: Path, value: bytes, group: int) -> None:
    """The key as Kubernetes mounts it: root's, and readable for the pod's group.

    Without root the user has to own it.
    """
    path.write_bytes(value)
    os.chown(path, -1, group)
    path.chmod(0o440 if os.geteuid() == 0 else 0o400)


def _first_start(server: Server, process: "subprocess.Popen[bytes]", statements: str, log: Path) -> None:
    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        return server.psql("SELECT 1;").returncode == 0

    eventually(answers, within=60)
    done = server.psql(statements)
    assert done.returncode == 0, done.stderr


async def test_the_owner_connects_over_verified_tls(server: Server) -> None:
    assert await server.connect(NAME, NAME) == NAME


class BackupSettings:
    """The part of a driver that a connection to an instance needs."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    async def password(self, _: str) -> str:
        return self._secret


async def test_the_control_plane_reaches_it_at_an_address_that_its_certificate_does_not_name(server: Server) -> None:
    """An address like a load balancer's, which was not known when the certificate was made."""
    balancer = Endpoint("127.0.0.2", server.port, NAME, NAME, server.ca)
    keeping = cast(Driver, BackupSettings(server.password))

    await reach(keeping, "x", balancer, 30)

    another = replace(balancer, ca=self_signed()[0].decode())
    with pytest.raises(DatabaseUnreachable, match="CERTIFICATE_VERIFY_FAILED"):
        await reach(keeping, "x", another, 30)


async def test_a_connection_without_tls_is_refused(server: Server) -> None:
    with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError, match=r"no pg_hba\.conf entry"):
        await server.connect(NAME, NAME, tls=False)


async def test_a_wrong_password_is_refused(server: Server) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        await server.connect(NAME, NAME, password="guess")


async def test_the_superuser_cannot_log_in_over_the_network(server: Server) -> None:
    with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError, match="rejects"):
        await server.connect("postgres", "postgres")


@pytest.mark.parametrize(("name", "value"), PARAMETERS.items())
async def test_parameters_are_in_force(server: Server, name: str, value: str) -> None:
    # asyncpg gives no name of its own, so the server's default is what is shown.
    assert await server.on_socket(f"SHOW {name}") == value


async def test_a_new_password_takes_the_old_ones_place(server: Server) -> None:
    new = new_password()
    assert server.psql(credentials.new_password_statement(NAME, new)).returncode == 0
    assert await server.connect(NAME, NAME, password=new) == NAME
    with pytest.raises(asyncpg.InvalidPasswordError):
        await server.connect(NAME, NAME)
    assert server.psql(credentials.new_password_statement(NAME, server.password)).returncode == 0


def test_a_failing_statement_is_reported(server: Server) -> None:
    done = server.psql(credentials.new_password_statement("unknown", "x"))
    assert done.returncode == 3
    assert 'role "unknown" does not exist' in done.stderr
