"""The paths of a cluster: one directory, and another one for sockets if the first has too long a path.

If root runs this process, root owns the directory, and the user that runs PostgreSQL can only pass through it: that
user cannot put a link where root is about to write.
"""

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from interlock.embedded.accounts import Account
from interlock.embedded.files import make_private, make_reachable
from interlock.errors import DataDirectoryUnusable

# A fixed path, whatever TMPDIR is: it has to be short, and the same for every process.
_SHORT_PLACE = Path("/tmp")  # noqa: S108 - make_private() checks that only this user can enter
_LONGEST_SOCKET_PATH = 103 if sys.platform == "darwin" else 107
_LONGEST_SOCKET_NAME = ".s.PGSQL.65535"
# Made by the file system in an otherwise empty mount.
_NOT_FOREIGN = {"lost+found"}


@dataclass(frozen=True)
class ClusterPaths:
    """The paths below `root`, which is absolute."""

    root: Path

    @classmethod
    def below(cls, root: Path) -> Self:
        if any(ord(character) < 32 for character in os.fspath(root)):
            raise DataDirectoryUnusable(
                f"{str(root)!r} has a control character in it: choose another directory with --data-dir."
            )
        return cls(Path(root).resolve())

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def fresh_data(self) -> Path:
        """Data that are not complete yet."""
        return self.root / "data.new"

    @property
    def deleted_data(self) -> Path:
        """Data that are not complete any more."""
        return self.root / "data.deleted"

    @property
    def log(self) -> Path:
        return self.root / "postgresql.log"

    @property
    def old_log(self) -> Path:
        return self.root / "postgresql.log.old"

    @property
    def password(self) -> Path:
        return self.root / "password"

    @property
    def settings(self) -> Path:
        return self.root / "settings.conf"

    @property
    def port(self) -> Path:
        """The file with the port that was free the last time."""
        return self.root / "port"

    @property
    def secret_pem(self) -> Path:
        """Private key and certificate in one file, so that they can only change together."""
        return self.root / "server.pem"

    @property
    def own_pem(self) -> Path:
        """The certificate that the cluster made for itself, with its key. Exists if another certificate replaced it."""
        return self.root / "server-own.pem"

    @property
    def certificate(self) -> Path:
        """The certificate for clients: the server's own, or its issuer's.

        The file is empty if clients use the authorities that they trust.
        """
        return self.root / "server.crt"

    @property
    def control_lock(self) -> Path:
        return self.root / "control.lock"

    @property
    def users_lock(self) -> Path:
        return self.root / "users.lock"

    @property
    def run(self) -> Path:
        return self.root / "run"

    def sockets(self, account: Account) -> Path:
        """Returns the directory of the Unix socket, which is always the same for the same root and user."""
        is_short = len(os.fsencode(self.run / _LONGEST_SOCKET_NAME)) <= _LONGEST_SOCKET_PATH
        # A client takes a comma for the end of one host and the beginning of the next.
        if is_short and "," not in str(self.run):
            return self.run
        return self._short_sockets(account.uid)

    def possible_sockets(self) -> list[Path]:
        """Returns the directories that may have the socket, for a caller that does not know the cluster's account."""
        try:
            owner = self.data.stat().st_uid
        except OSError:
            owner = os.geteuid()
        return [self.run, self._short_sockets(owner)]

    def _short_sockets(self, uid: int) -> Path:
        digest = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:16]
        return _SHORT_PLACE / f"interlock-{uid}-{digest}"

    def own(self) -> list[Path]:
        """Returns all paths in the root that a cluster may create. They do not have to exist."""
        pems = (self.secret_pem, self.own_pem, self.certificate)
        files = (self.log, self.old_log, self.password, self.settings, self.port, *pems)
        halves = [file.with_name(f"{file.name}.new") for file in files]
        copies = list(self.root.glob("postgresql-*.*"))
        directories = [self.fresh_data, self.deleted_data, self.data, self.run]
        return [*directories, *copies, *files, *halves, self.users_lock, self.control_lock]

    def check(self) -> None:
        """Raises DataDirectoryUnusable if the root holds anything but Interlock's cluster, or a part of one."""
        if self.data.exists():
            self._check_data()
        elif self.root.exists():
            foreign = {path.name for path in self.root.iterdir()} - {path.name for path in self.own()} - _NOT_FOREIGN
            if foreign:
                raise self._unusable(f"it contains files that are not Interlock's ({', '.join(sorted(foreign)[:3])})")

    def prepare(self, account: Account) -> None:
        """Make the root if it is missing, so that `account` can reach it. Raises DataDirectoryUnusable."""
        self.check()
        make_reachable(self.root, account)

    def make_sockets(self, account: Account) -> Path:
        make_private(self.sockets(account), account)
        return self.sockets(account)

    def _check_data(self) -> None:
        if not (self.data / "PG_VERSION").is_file() or not self.password.is_file():
            raise self._unusable("its data/ was not made by Interlock, or is damaged")

    def _unusable(self, why: str) -> DataDirectoryUnusable:
        return DataDirectoryUnusable(
            f"{self.root} cannot be used because {why}: choose another directory with --data-dir."
        )


@contextmanager
def readable(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataDirectoryUnusable(
            f"{root} cannot be read ({error}): run this command as the owner of {root}."
        ) from error
