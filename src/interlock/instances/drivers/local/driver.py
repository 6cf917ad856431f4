"""The driver `local`. Each operation runs in a thread, to its end, even if its caller is cancelled."""

import asyncio
import errno
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from interlock.errors import (
    ClusterFailed,
    ConfigurationError,
    DataDirectoryUnusable,
    InterlockError,
    NotSupported,
    OutOfSpace,
    StatementFailed,
)
from interlock.instances.drivers.local import creation, observation, operations, removal
from interlock.instances.drivers.local.environment import LocalEnvironment, absent
from interlock.instances.drivers.local.log_lines import read_lines
from interlock.instances.drivers.local.marker import read_marker
from interlock.instances.drivers.local.parameters import DEFAULTS, check_names
from interlock.instances.drivers.port import Observation, Spec
from interlock.tls.certificate import Certificate

T = TypeVar("T")

PORTS = range(15432, 16432)
_THREADS = 8
_DISK_FULL = "53100"
_NO_SPACE = ("No space left on device", "Check free disk space")


class LocalDriver:
    """Instances in the directory `root`. The constructor touches nothing.

    `ports`: the ports of instances on the loopback address. `pg_bin`: the directory of PostgreSQL's programs, instead
    of all installations. `run_as`: the user that runs them if this process is root. `defaults`: parameters of every
    instance that does not set them, in addition to those that make it small; they take effect at its next start.
    `limit`: the largest number of instances in the directory.

    Beside the errors of the port, any operation may raise DataDirectoryUnusable. Operations that start a server may
    raise BinariesMissing, TlsUnavailable, ClusterFailed or AddressInUse.
    """

    name = "local"
    can_resize = False
    can_use_certificate = True

    def __init__(
        self,
        root: Path,
        *,
        ports: Sequence[int] = PORTS,
        pg_bin: Path | None = None,
        run_as: str | None = None,
        start_timeout: float = 60.0,
        stop_timeout: float = 60.0,
        defaults: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> None:
        if not ports or not all(0 < port < 65536 for port in ports):
            raise ConfigurationError("Instances need ports from 1 to 65535: give the driver at least one port.")
        usual = {**DEFAULTS, **check_names(defaults or {})}
        timeouts = (start_timeout, stop_timeout)
        self._environment = LocalEnvironment(root.absolute(), ports, pg_bin, run_as, *timeouts, usual, limit)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="instances")

    def check_defaults(self) -> None:
        """Raises BadSpec if PostgreSQL refuses the defaults."""
        self._environment.check_defaults()

    async def check(self, spec: Spec) -> None:
        await self._query(self._environment.check, spec)

    async def provision(self, spec: Spec) -> None:
        await self._run_verb(creation.provision, self._environment, spec)

    async def observe(self, id: str) -> Observation:
        return await self._query(observation.observe, self._environment, id)

    async def start(self, id: str) -> None:
        await self._with_instance(id, operations.bring_up)

    async def stop(self, id: str) -> None:
        await self._with_instance(id, operations.bring_down)

    async def remove(self, id: str) -> None:
        await self._run_verb(removal.remove, self._environment, id)

    async def password(self, id: str) -> str:
        """Health checks need the password, so this waits for other operations only while the password is being
        changed.
        """
        known = await self._query(operations.known_password, self._environment, id)
        return known if known is not None else await self._with_instance(id, operations.password)

    async def reset_password(self, id: str) -> None:
        await self._with_instance(id, operations.reset_password)

    async def set_parameters(self, id: str, parameters: Mapping[str, str]) -> Literal["reloaded", "restart needed"]:
        return await self._with_instance(id, operations.change_parameters, parameters)

    async def resize(self, id: str, storage_bytes: int) -> None:
        raise NotSupported(
            "An instance of the driver local can use its whole disk: move it to a larger disk to get more storage."
        )

    async def use_certificate(self, id: str, certificate: Certificate | None) -> None:
        await self._with_instance(id, operations.use_certificate, certificate)

    async def logs(self, id: str, *, lines: int = 100, follow: bool = False) -> AsyncGenerator[str, None]:
        log = await self._query(self._log_of, id)
        async for line in read_lines(log, lines, follow=follow):
            yield line

    async def ids(self) -> Mapping[str, str]:
        return await self._query(observation.ids, self._environment)

    def _log_of(self, id: str) -> Path:
        directory = self._environment.directory(id)
        marker = read_marker(directory)
        if marker is None:
            raise absent(id)
        return self._environment.cluster(marker).log_file

    async def _with_instance(self, id: str, verb: Callable[..., T], *arguments: Any) -> T:
        """Run an operation on a complete instance, under its lock."""

        def run() -> T:
            directory = self._environment.directory(id)
            with self._environment.locked_instance(directory) as marker:
                return verb(self._environment, directory, marker, *arguments)

        return await self._run_verb(run)

    async def _run_verb(self, verb: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._translated, verb, *arguments)

    async def _query(self, question: Callable[..., T], *arguments: Any) -> T:
        """Run a query. It does not use the threads of operations, which may all be busy for a while."""
        return await asyncio.to_thread(self._translated, question, *arguments)

    def _translated(self, verb: Callable[..., T], *arguments: Any) -> T:
        with _translated_errors(self._environment.root):
            return verb(*arguments)


@contextmanager
def _translated_errors(root: Path) -> Iterator[None]:
    """Turn a full disk into OutOfSpace, and other errors of the operating system into DataDirectoryUnusable."""
    try:
        yield
    except InterlockError as error:
        if _is_disk_full(error):
            raise _out_of_space(root) from error
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _out_of_space(root) from error
        raise DataDirectoryUnusable(
            f"The directory of instances {root} cannot be used ({error}): correct that, or choose another directory."
        ) from error


def _is_disk_full(error: InterlockError) -> bool:
    text = f"{error} {error.log_tail}" if isinstance(error, ClusterFailed) else str(error)
    return any(sign in text for sign in _NO_SPACE) or (
        isinstance(error, StatementFailed) and error.sqlstate == _DISK_FULL
    )


def _out_of_space(root: Path) -> OutOfSpace:
    return OutOfSpace(f"The disk of {root} is full: free some space, or move the instances to another disk.")
