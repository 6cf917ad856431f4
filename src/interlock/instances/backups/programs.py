"""Runs of pg_dump and pg_restore.

The programs get the password in their environment, which only their user can read. Error messages quote only the first
error of a program: the lines after it contain statements, and with them users' data.
"""

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from interlock.embedded.clients import Clients
from interlock.embedded.processes import environment
from interlock.errors import BackupFailed, BinariesMissing, DatabaseUnreachable, InterlockError, OutOfSpace
from interlock.instances.backups.model import Format
from interlock.instances.backups.restore_proxy import PORT, Permit, RestoreProxy
from interlock.instances.drivers.port import Endpoint
from interlock.tls.sslmode import sslmode

_FORMATS: dict[Format, str] = {"file": "custom", "directory": "directory"}
_CONNECT_WITHIN = "30"
_LOCKS_WITHIN = 600
"""Seconds that a dump may wait for a lock. A waiting dump blocks a slot, and other sessions that need the table."""
_GRACE = 5.0
_NO_SPACE = "No space left on device"
_WAITED = "canceling statement due to"
_LOCKS = "max_locks_per_transaction"
_CUT_OFF = (
    "connection to server",
    "server closed the connection",
    "terminating connection",
    "no connection to the server",
    "SSL connection has been closed",
    "SSL SYSCALL error",
    "could not receive data",
)


async def dump(
    clients: Clients, endpoint: Endpoint, password: str, purpose: str, format: Format, archive: Path
) -> None:
    """Write the whole database of the endpoint into `archive`, and return when it is on the disk."""
    command: list[str | Path] = [
        clients.pg_dump,
        "--no-password",
        "--no-tablespaces",
        f"--lock-wait-timeout={_LOCKS_WITHIN}s",
        f"--format={_FORMATS[format]}",
        f"--file={archive}",
    ]
    with tempfile.TemporaryDirectory(prefix="interlock-") as place:
        variables = {
            "PGHOST": endpoint.host,
            "PGPORT": str(endpoint.port),
            "PGSSLMODE": sslmode(endpoint.host, endpoint.ca),
        }
        if endpoint.ca:
            certificate = Path(place) / "ca.pem"
            certificate.write_text(endpoint.ca)
            variables["PGSSLROOTCERT"] = str(certificate)
        await _run(command, _variables(endpoint, password, purpose) | variables)


async def restore(
    clients: Clients, endpoint: Endpoint, password: str, purpose: str, archive: Path, *, grants: bool, permit: Permit
) -> None:
    """Restore the archive in one transaction, which commits only if `permit` allows it.

    Objects of the archive replace existing ones, and belong to the restoring role. With `grants`, privileges are
    restored too.
    """
    command: list[str | Path] = [
        clients.pg_restore,
        "--no-password",
        f"--dbname={endpoint.database}",
        "--clean",
        "--if-exists",
        "--single-transaction",
        "--no-owner",
        "--no-tablespaces",
        *([] if grants else ["--no-privileges"]),
        archive,
    ]
    restore_proxy = RestoreProxy(endpoint, permit)
    with tempfile.TemporaryDirectory(prefix="interlock-") as place:
        async with restore_proxy.listening(Path(place)):
            try:
                variables = {"PGHOST": place, "PGPORT": str(PORT)}
                await _run(command, _variables(endpoint, password, purpose) | variables)
            except InterlockError as error:
                raise restore_proxy.refusal or error from error
    if not restore_proxy.is_permitted:
        raise BackupFailed(f"{clients.pg_restore} ended without having committed anything: install it again.")


async def read_through(clients: Clients, archive: Path) -> None:
    """Read the whole archive, as a restore would."""
    await _run([clients.pg_restore, "--file=/dev/null", archive], {})


def _variables(endpoint: Endpoint, password: str, purpose: str) -> dict[str, str]:
    return {
        "PGUSER": endpoint.user,
        "PGDATABASE": endpoint.database,
        "PGPASSWORD": password,
        "PGAPPNAME": f"interlock {purpose}"[:63],
        "PGCONNECT_TIMEOUT": _CONNECT_WITHIN,
    }


async def _run(command: Sequence[str | Path], variables: Mapping[str, str]) -> None:
    """Run a program to its end. Cancellation ends the program too."""
    program = Path(command[0])
    try:
        process = await asyncio.create_subprocess_exec(
            *(os.fspath(word) for word in command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            cwd="/",
            env=environment(program.parent) | dict(variables),
            umask=0o077,
        )
    except OSError as error:
        raise BinariesMissing(f"{program} cannot be run ({error.strerror}): install it again.") from error
    try:
        _, stderr = await process.communicate()
    except BaseException:
        with suppress(TimeoutError):
            await _end(process)
        raise
    if process.returncode:
        raise _failure(program.name, process.returncode, stderr.decode(errors="replace"))


async def _end(process: asyncio.subprocess.Process) -> None:
    """Terminate before killing, so that the program can cancel its statement in the server."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_GRACE):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()


def _failure(program: str, status: int, stderr: str) -> BackupFailed | DatabaseUnreachable | OutOfSpace:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    first = next((line.partition("error:")[2].strip() for line in lines if "error:" in line), "")
    reason = " ".join((first or (lines or [f"exit status {status}"])[-1]).split()).rstrip(".")
    if _NO_SPACE in stderr:
        return OutOfSpace(f"{program} found the disk full ({reason}): free some space, and try again.")
    if _LOCKS in stderr:
        return BackupFailed(
            f"{program} needs more locks than the instance's server can hold ({reason}): raise the instance's "
            f"parameter {_LOCKS}, and try again."
        )
    if _WAITED in stderr and program == "pg_dump":
        return BackupFailed(
            f"{program} waited {_LOCKS_WITHIN} s for a table that another transaction has locked ({reason}): "
            "end that transaction, and try again."
        )
    if any(sign in stderr for sign in _CUT_OFF):
        return DatabaseUnreachable(
            f"{program} lost its connection to the instance ({reason}): check that the instance runs, and try again."
        )
    return BackupFailed(f"{program} ended with the status {status} ({reason}): correct that, and try again.")
