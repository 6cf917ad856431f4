"""One PostgreSQL cluster, in one directory, shared by any number of processes of this machine."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from interlock.embedded.accounts import Account, account_for
from interlock.embedded.address import url_of
from interlock.embedded.binaries import Binaries, find_binaries
from interlock.embedded.certificates import (
    change_certificate,
    ensure_certificate,
    need_tls,
    own_certificate,
    will_have_tls,
)
from interlock.embedded.data_directory import delete_cluster, delete_sockets, make_data
from interlock.embedded.install import within_reach
from interlock.embedded.lifecycle import Launch, Port, StopMode, halt, tail_of
from interlock.embedded.locks import exclusive, is_shared, share
from interlock.embedded.orphans import end_orphans
from interlock.embedded.paths import ClusterPaths, readable
from interlock.embedded.postmaster import Postmaster, live_postmaster, read_postmaster
from interlock.embedded.settings import check_settings
from interlock.errors import ClusterFailed, ConfigurationError, DataDirectoryUnusable
from interlock.logs import events

log = events(__name__)


class Cluster:
    """The cluster in `root`. Creating this object changes nothing.

    `port`: a TCP port on the loopback address, ``"free"`` for any (the same one next time, if it is still free), or
    None for the Unix socket only. `tls`: True requires TLS, False switches it off, None uses it if available. `run_as`:
    the user to run as, for root. `settings`: PostgreSQL's own, over Interlock's defaults. `host_names`: names for the
    certificate that this object makes, beside this machine's. Port, TLS and settings apply when this object starts the
    cluster; a running cluster is used as it is.

    Any method may raise DataDirectoryUnusable, and any that starts something BinariesMissing or ClusterFailed.
    """

    def __init__(
        self,
        root: Path,
        *,
        binaries: Binaries | None = None,
        port: Port = None,
        tls: bool | None = None,
        settings: Mapping[str, str] | None = None,
        run_as: str | None = None,
        host_names: Sequence[str] = (),
        start_timeout: float = 60.0,
        stop_timeout: float = 60.0,
    ) -> None:
        self._paths = ClusterPaths.below(root)
        self._binaries = binaries
        self._port = _checked_port(port)
        self._tls = tls
        self._settings = check_settings(settings or {})
        self._run_as = run_as
        self._host_names = host_names
        self._start_timeout = start_timeout
        self._stop_timeout = stop_timeout
        self._shares: list[int] = []

    @property
    def root(self) -> Path:
        return self._paths.root

    @property
    def certificate_file(self) -> Path:
        """The file that clients check the server's certificate with (``sslrootcert``). Exists if the cluster has TLS.

        It is empty if clients check with the authorities that they trust.
        """
        return self._paths.certificate

    @property
    def log_file(self) -> Path:
        """PostgreSQL's own log. The next start replaces a large one by an empty one."""
        return self._paths.log

    # The life of the data

    def create(self) -> bool:
        """Create the data unless they exist: True if they were created. Never changes or replaces existing data.

        Raises TlsUnavailable if TLS is required and unavailable.
        """
        with self._control(make_root=True) as control:
            return self._create(control)

    def delete(self, mode: StopMode = "fast") -> None:
        """Stop the cluster and delete all of it. Raises ClusterFailed if another process uses it.

        In immediate mode a server that does not stop in time is killed, and so is one whose directory is gone already.
        """
        if not self._exists():
            if mode == "immediate":
                end_orphans(self._paths, self._stop_timeout)
                delete_sockets(self._paths, self._account())
            return
        with self._control():
            self._check_no_other_user()
            self._end(mode)
            delete_cluster(self._paths, self._account())
        log.info("cluster.deleted", extra={"root": str(self.root)})

    # The life of the server

    def start(self) -> bool:
        """Return when the cluster accepts connections: True if it was started, False if it already ran."""
        with self._control():
            return self._start()

    def stop(self, mode: StopMode = "fast") -> bool:
        """Stop the cluster, even if it is used: True if it ran."""
        if not self._exists():
            return False
        with self._control():
            return self._stop(mode)

    def write_settings(self) -> None:
        """Write this object's settings, for a running server to load at the next SIGHUP."""
        with self._control():
            self._launch().write_settings()

    def ensure_running(self) -> bool:
        """Start the cluster again if its server has ended: True if it had. For a watcher."""
        return False if self.is_running() else self.start()

    def is_running(self) -> bool:
        """True if the cluster accepts connections."""
        found = self._live()
        return found is not None and found.is_ready

    def status(self) -> str | None:
        """The server's own status: starting, stopping, ready or standby; None if there is no server."""
        found = self._live()
        return found.status if found else None

    def ended_uncleanly(self) -> bool:
        """True if there is no server, and the last one was killed, or its machine crashed."""
        with readable(self.root):
            return self._live() is None and read_postmaster(self._paths.data) is not None

    def major_version(self) -> int | None:
        """PostgreSQL's major version of the data; None if there are none, or they are incomplete."""
        with readable(self.root):
            return self._major_version()

    def pid(self) -> int | None:
        """The process id of the server, or None if there is none."""
        found = self._live()
        return found.pid if found else None

    # Sharing it

    def attach(self) -> bool:
        """Become a user of the cluster, which is created and started if necessary: True if it was started.

        The `release()` of other processes does not stop it until this process has released it as often, or has ended.
        """
        with self._control(make_root=True) as control:
            self._shares.append(share(self._paths.users_lock))
            try:
                self._create(control)
                return self._start()
            except BaseException:
                os.close(self._shares.pop())
                raise

    def release(self) -> bool:
        """Stop being a user of the cluster, and stop the cluster if that was the last user: True if it was stopped."""
        if not self._exists():
            return False
        with self._control():
            if self._shares:
                os.close(self._shares.pop())
            return False if is_shared(self._paths.users_lock) else self._stop("fast")

    @contextmanager
    def shared(self) -> Iterator[Self]:
        """`attach()` at the start of the block, `release()` at its end."""
        self.attach()
        try:
            yield self
        finally:
            self.release()

    # Using it

    def url(self, database: str = "postgres", *, tcp: bool = False) -> str:
        """The URL of the cluster, with the superuser's password. Raises ClusterFailed if it was never started.

        Over the Unix socket unless `tcp`.
        """
        with readable(self.root):
            found = read_postmaster(self._paths.data)
            if found is None:
                raise ClusterFailed(f"No cluster runs in {self.root}: start it first.")
            return url_of(self._paths, found, database, tcp=tcp)

    def use_certificate(self, certificate: bytes, key: bytes, authority: bytes | None = None) -> None:
        """Serve another certificate (PEM, with its chain) from now on, also to the clients of a running cluster.

        Clients check it with `authority`: by default the certificate itself; empty for the authorities that they trust.
        Raises ConfigurationError if the first two do not belong together, TlsUnavailable if the cluster has no TLS.
        """
        with self._control():
            need_tls(self._tools())
            told = certificate if authority is None else authority
            change_certificate(self._paths, self._account(), certificate, key, told)
        log.info("cluster.certificate_changed", extra={"root": str(self.root)})

    def use_own_certificate(self) -> None:
        """Serve the certificate again that the cluster made for itself."""
        with self._control():
            need_tls(self._tools())
            ensure_certificate(self._paths, self._account(), self._host_names)
            certificate, key = own_certificate(self._paths)
            change_certificate(self._paths, self._account(), certificate, key, certificate)
        log.info("cluster.certificate_changed", extra={"root": str(self.root)})

    def log_tail(self, lines: int = 20) -> str:
        """The end of PostgreSQL's own log."""
        return tail_of(self._paths, lines)

    # Below: the control lock is held.

    @contextmanager
    def _control(self, *, make_root: bool = False) -> Iterator[int]:
        def prepare() -> None:
            if make_root:
                self._paths.prepare(self._account())
            elif not self._exists():
                raise ClusterFailed(f"There is no cluster in {self.root}: create it first.")

        try:
            with exclusive(self._paths.control_lock, prepare) as control:
                yield control
        except OSError as error:
            raise DataDirectoryUnusable(
                f"{self.root} cannot be used ({error}): correct that, or choose another directory with --data-dir."
            ) from error

    def _create(self, control: int) -> bool:
        self._paths.check()
        account, binaries = self._account(), self._tools()
        with_tls = self._ensure_tls(binaries, account)
        is_new = not self._paths.data.exists()
        if is_new:
            make_data(self._paths, binaries, account, control)
            log.info("cluster.created", extra={"root": str(self.root), "version": _dotted(binaries), "tls": with_tls})
        return is_new

    def _start(self) -> bool:
        begun_at = time.monotonic()
        was_started = self._launch().bring_up()
        log.info(
            "cluster.started" if was_started else "cluster.attached",
            extra={"root": str(self.root), "postmaster": self.pid(), "seconds": round(time.monotonic() - begun_at, 3)},
        )
        return was_started

    def _launch(self) -> Launch:
        if not self._paths.data.exists():
            raise ClusterFailed(f"There is no cluster in {self.root}: create it first.")
        self._paths.check()
        account, binaries = self._account(), self._tools()
        options = (self._settings, self._port, self._ensure_tls(binaries, account), self._start_timeout)
        return Launch(self._paths, binaries, account, *options)

    def _stop(self, mode: StopMode) -> bool:
        was_running = halt(self._paths, mode, self._stop_timeout)
        if was_running:
            log.info("cluster.stopped", extra={"root": str(self.root), "mode": mode})
        return was_running

    def _end(self, mode: StopMode) -> None:
        """Return when no process runs on the data any more."""
        try:
            halt(self._paths, mode, self._stop_timeout)
        except ClusterFailed:
            if mode != "immediate":
                raise
        end_orphans(self._paths, self._stop_timeout)

    def _ensure_tls(self, binaries: Binaries, account: Account) -> bool:
        with_tls = will_have_tls(self._tls, self._paths, binaries)
        if with_tls:
            ensure_certificate(self._paths, account, self._host_names)
        return with_tls

    def _account(self) -> Account:
        return account_for(self._run_as, self._paths.data)

    def _tools(self) -> Binaries:
        """Binaries of the data's version, if there are data, that the account can run."""
        self._binaries = self._binaries or find_binaries()
        self._check_version(self._binaries)
        return within_reach(self._binaries, self._account(), self.root)

    def _check_version(self, binaries: Binaries) -> None:
        major = self._major_version()
        if major not in (None, binaries.version[0]):
            raise DataDirectoryUnusable(
                f"{self.root} holds data of PostgreSQL {major}, and {binaries.bin_dir} is PostgreSQL "
                f"{_dotted(binaries)}: set INTERLOCK_PG_BIN to the programs of {major}, or choose another directory "
                "with --data-dir."
            )

    def _major_version(self) -> int | None:
        try:
            return int((self._paths.data / "PG_VERSION").read_text())
        except FileNotFoundError:
            return None

    def _check_no_other_user(self) -> None:
        ours = len(self._shares)
        while self._shares:
            os.close(self._shares.pop())
        if is_shared(self._paths.users_lock):
            self._shares.extend(share(self._paths.users_lock) for _ in range(ours))
            raise ClusterFailed(f"The cluster in {self.root} is used by another process: end that one first.")

    def _exists(self) -> bool:
        with readable(self.root):
            return self._paths.control_lock.exists()

    def _live(self) -> Postmaster | None:
        with readable(self.root):
            return live_postmaster(self._paths.data)


def _checked_port(port: Port) -> Port:
    if isinstance(port, int) and not 0 < port < 65536:
        raise ConfigurationError(f"{port} is not a TCP port: choose one from 1 to 65535.")
    return port


def _dotted(binaries: Binaries) -> str:
    return "{}.{}".format(*binaries.version)
