"""The environment that all instances of one directory share: programs, user, range of ports, defaults."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from interlock.embedded import Binaries, Cluster, all_binaries, within_reach
from interlock.embedded.accounts import Account, account_for
from interlock.embedded.certificates import need_tls
from interlock.embedded.files import make_reachable
from interlock.embedded.locks import exclusive
from interlock.errors import BadSpec, BinariesMissing, InstanceAbsent, OutOfSpace, TlsUnavailable, TooManyInstances
from interlock.instances.drivers.local.directory import Directory, directory_of
from interlock.instances.drivers.local.marker import Marker, markers, read_marker
from interlock.instances.drivers.local.parameters import DEFAULTS, check_parameters
from interlock.instances.drivers.owner import check_name
from interlock.instances.drivers.port import Spec
from interlock.tls.certificate import need_cryptography


@dataclass(frozen=True)
class LocalEnvironment:
    root: Path
    ports: Sequence[int]
    pg_bin: Path | None
    run_as: str | None
    start_timeout: float
    stop_timeout: float
    defaults: Mapping[str, str]
    limit: int | None
    known: list[Binaries] = field(default_factory=list)
    """The programs that were found last. They are kept because each search runs them."""

    def account(self) -> Account:
        return account_for(self.run_as)

    def directory(self, id: str) -> Directory:
        return directory_of(self.root, id)

    def cluster(self, marker: Marker, binaries: Binaries | None = None) -> Cluster:
        """Returns the cluster of an instance. `binaries` are needed to start its server."""
        return Cluster(
            self.directory(marker.id).cluster,
            binaries=binaries,
            port=marker.port,
            tls=True,
            settings={"cluster_name": marker.id, **self.defaults, **marker.parameters},
            run_as=self.run_as,
            host_names=[marker.dns_name] if marker.dns_name else [],
            start_timeout=self.start_timeout,
            stop_timeout=self.stop_timeout,
        )

    def binaries(self, version: str | int | None) -> Binaries:
        """Returns the programs of that major version; None is the newest.

        Raises BadSpec, BinariesMissing or TlsUnavailable.
        """
        found = self._known(version)
        if found is None:
            self.known[:] = all_binaries(self.pg_bin)
            found = self._known(version)
        if found is None:
            majors = ", ".join(dict.fromkeys(str(binaries.version[0]) for binaries in self.known))
            raise BadSpec(f"PostgreSQL {version} is not on this machine: install it, or ask for one of {majors}.")
        need_tls(found)
        need_cryptography()
        return found

    def reachable(self, binaries: Binaries) -> Binaries:
        """Returns the programs in a place that their user can read. They are copied once for all instances."""
        return within_reach(binaries, self.account(), self.root)

    def check(self, spec: Spec) -> Binaries:
        """Raise the errors of the request, and change nothing."""
        self.directory(spec.id).check_owned()
        check_name(spec.name)
        check_host(spec.dns_name)
        binaries = self.binaries(spec.version)
        check_parameters(spec.parameters, binaries, self.defaults)
        self._check_size(spec.storage_bytes)
        self.check_limit(spec.id)
        return binaries

    def check_defaults(self) -> None:
        """Raises BadSpec if PostgreSQL refuses the defaults.

        If PostgreSQL is missing, the first creation of an instance fails.
        """
        if self.defaults != DEFAULTS:
            with suppress(BinariesMissing, TlsUnavailable):
                check_parameters({}, self.binaries(None), self.defaults)

    def check_limit(self, id: str) -> None:
        """Raises TooManyInstances if one more instance would exceed the limit.

        Only the check under the lock of the ports is decisive.
        """
        if self.limit is None:
            return
        others = sum(marker is not None for each, marker in markers(self.root).items() if each != id)
        if others >= self.limit:
            raise TooManyInstances(
                f"The driver local may have {self.limit} instances, and has {others}: remove an instance, or raise "
                "instance_limit."
            )

    def make_root(self) -> None:
        make_reachable(self.root, self.account())

    @contextmanager
    def locked_instance(self, directory: Directory) -> Iterator[Marker]:
        """Lock a complete instance.

        Raises InstanceAbsent if it is missing or incomplete, ForeignResource if it is foreign.
        """

        def prepare() -> None:
            directory.check_owned()
            if not directory.path.exists():
                raise absent(directory.id)

        with exclusive(directory.lock, prepare):
            marker = read_marker(directory)
            if marker is None or not marker.is_whole:
                raise InstanceAbsent(
                    f"Instance {directory.id} is incomplete: provision it again, or remove it.", id=directory.id
                )
            yield marker

    def _known(self, version: str | int | None) -> Binaries | None:
        fitting = (each for each in self.known if version in (None, each.version[0], str(each.version[0])))
        return next((each for each in fitting if each.postgres.exists()), None)

    def _check_size(self, wanted: int | None) -> None:
        if wanted is None:
            return
        if wanted <= 0:
            raise BadSpec(f"{wanted} bytes are not a valid size for an instance: use more, or leave the size out.")
        existing = next(place for place in (self.root, *self.root.parents) if place.exists())
        if (free := shutil.disk_usage(existing).free) < wanted:
            raise OutOfSpace(
                f"The disk of {self.root} has {free} bytes left, and the instance needs {wanted}: free some "
                "space, or use a smaller size."
            )


def check_host(dns_name: str | None) -> None:
    """Raises BadSpec for a name that cannot be in a certificate."""
    if dns_name and not dns_name.isascii():
        raise BadSpec(f"{dns_name!r} cannot be in a certificate: write it in its ASCII form (xn--…).")


def absent(id: str) -> InstanceAbsent:
    return InstanceAbsent(f"There is no instance {id}: provision it first.", id=id)
