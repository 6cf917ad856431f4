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
    """The cluster in `root`. Creating this object changes nothing on the machine.

    `port`: a TCP port on the loopback address, ``"free"`` for any port (the same port next time, if it is still free),
    or None for the Unix socket only. `tls`: True requires TLS, False switches TLS off, None uses TLS if it is
    available. `run_as`: the user that runs PostgreSQL if this process runs as root. `settings`: settings of PostgreSQL,
    which override Interlock's defaults. `host_names`: names for the certificate that this object makes, beside this
    machine's. Port, TLS and settings apply when this object starts the cluster, not to a cluster that already runs.

    Any method may raise DataDirectoryUnusable. Methods that start a program may raise BinariesMissing or ClusterFailed.
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

        The file is empty if clients check the certificate with the authorities that they trust.
        """
        return self._paths.certificate

    @property
    def log_file(self) -> Path:
        """PostgreSQL's own log. If the log is large, the next start begins an empty one."""
        return self._paths.log

    # The life of the data

    def create(self) -> bool:
        """Create the data unless they exist. Returns True if they were created. Existing data are never changed.

        Raises TlsUnavailable if TLS is required and unavailable.
        """
        with self._control(make_root=True) as control:
            return self._create(control)

    def delete(self, mode: StopMode = "fast") -> None:
        """Stop the cluster and delete all its files. Raises ClusterFailed if another process uses the cluster.

        Immediate mode also kills a server that does not stop in time, or whose directory is gone already.
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
        """Start the cluster and wait until it accepts connections. Returns False if the cluster already ran."""
        with self._control():
            return self._start()

    def stop(self, mode: StopMode = "fast") -> bool:
        """Stop the cluster, even if other processes use it. Returns True if the cluster ran."""
        if not self._exists():
            return False
        with self._control():
            return self._stop(mode)

    def write_settings(self) -> None:
        """Write this object's settings to the file. A running server loads the file at the next SIGHUP."""
        with self._control():
            self._launch().write_settings()

    def ensure_running(self) -> bool:
        """Start the cluster again if its server has ended. Returns True if it was started. For a watching process."""
        return False if self.is_running() else self.start()

    def is_running(self) -> bool:
        """True if the cluster accepts connections."""
        found = self._live()
        return found is not None and found.is_ready

    def status(self) -> str | None:
        """Returns the server's own status: starting, stopping, ready or standby; None if no server runs."""
        found = self._live()
        return found.status if found else None

    def ended_uncleanly(self) -> bool:
        """True if no server runs, and the last server was killed, or its machine crashed."""
        with readable(self.root):
            return self._live() is None and read_postmaster(self._paths.data) is not None

    def major_version(self) -> int | None:
        """Returns PostgreSQL's major version of the data, or None if the data are missing or incomplete."""
        with readable(self.root):
            return self._major_version()

    def pid(self) -> int | None:
        """Returns the process id of the server, or None if no server runs."""
        found = self._live()
        return found.pid if found else None

    # Sharing it

    def attach(self) -> bool:
        """Create and start the cluster if necessary, and become a user of it. Returns True if it was started.

        A `release()` in another process stops the cluster only after this process has called `release()` as often as
        `attach()`, or has ended.
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
        """Stop being a user of the cluster, and stop it if no user is left. Returns True if it was stopped."""
        if not self._exists():
            return False
        with self._control():
            if self._shares:
                os.close(self._shares.pop())
            return False if is_shared(self._paths.users_lock) else self._stop("fast")

    @contextmanager
    def shared(self) -> Iterator[Self]:
        """Calls `attach()` at the start of the block, and `release()` at its end."""
        self.attach()
        try:
            yield self
        finally:
            self.release()

    # Using it

    def url(self, database: str = "postgres", *, tcp: bool = False) -> str:
        """Returns the URL of the cluster, with the superuser's password. Raises ClusterFailed if it was not started.

        The URL leads to the Unix socket, or with `tcp` to the TCP port.
        """
        with readable(self.root):
            found = read_postmaster(self._paths.data)
            if found is None:
                raise ClusterFailed(f"No cluster runs in {self.root}: start the cluster first.")
            return url_of(self._paths, found, database, tcp=tcp)

    def use_certificate(self, certificate: bytes, key: bytes, authority: bytes | None = None) -> None:
        """Serve another certificate (PEM, with its chain) from now on, also to the clients of a running cluster.

        Clients check the certificate with `authority`: by default the certificate itself, or if `authority` is empty,
        the authorities that they trust. Raises ConfigurationError if `certificate` and `key` do not belong together,
        TlsUnavailable if the cluster has no TLS.
        """
        with self._control():
            need_tls(self._tools())
            told = certificate if authority is None else authority
            change_certificate(self._paths, self._account(), certificate, key, told)
        log.info("cluster.certificate_changed", extra={"root": str(self.root)})

    def use_own_certificate(self) -> None:
        """Serve the cluster's own certificate again, which the cluster made for itself."""
        with self._control():
            need_tls(self._tools())
            ensure_certificate(self._paths, self._account(), self._host_names)
            certificate, key = own_certificate(self._paths)
            change_certificate(self._paths, self._account(), certificate, key, certificate)
        log.info("cluster.certificate_changed", extra={"root": str(self.root)})

    def log_tail(self, lines: int = 20) -> str:
        """Returns the last lines of PostgreSQL's own log."""
        return tail_of(self._paths, lines)

    # Below: the control lock is held.

    @contextmanager
    def _control(self, *, make_root: bool = False) -> Iterator[int]:
        def prepare() -> None:
            if make_root:
                self._paths.prepare(self._account())
            elif not self._exists():
                raise ClusterFailed(f"There is no cluster in {self.root}: create the cluster first.")

        try:
            with exclusive(self._paths.control_lock, prepare) as control:
                yield control
        except OSError as error:
            raise DataDirectoryUnusable(
                f"{self.root} cannot be used ({error}): correct the error, or choose another directory with --data-dir."
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
            raise ClusterFailed(f"There is no cluster in {self.root}: create the cluster first.")
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
        """Returns binaries that the account can run. If data exist, the binaries have their version."""
        self._binaries = self._binaries or find_binaries()
        self._check_version(self._binaries)
        return within_reach(self._binaries, self._account(), self.root)

    def _check_version(self, binaries: Binaries) -> None:
        major = self._major_version()
        if major not in (None, binaries.version[0]):
            raise DataDirectoryUnusable(
                f"{self.root} has data of PostgreSQL {major}, and {binaries.bin_dir} has PostgreSQL "
                f"{_dotted(binaries)}: set INTERLOCK_PG_BIN to the programs of PostgreSQL {major}, or choose another "
                "directory with --data-dir."
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
            raise ClusterFailed(f"The cluster in {self.root} is used by another process: end that process first.")

    def _exists(self) -> bool:
        with readable(self.root):
            return self._paths.control_lock.exists()

    def _live(self) -> Postmaster | None:
        with readable(self.root):
            return live_postmaster(self._paths.data)


def _checked_port(port: Port) -> Port:
    if isinstance(port, int) and not 0 < port < 65536:
        raise ConfigurationError(f"{port} cannot be a TCP port: choose a port from 1 to 65535.")
    return port


def _dotted(binaries: Binaries) -> str:
    return "{}.{}".format(*binaries.version)
