"""Chooses the operating system's user that PostgreSQL runs as, because PostgreSQL refuses to run as root."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from interlock.errors import ConfigurationError, DataDirectoryUnusable

DEFAULT_NAMES = ("postgres", "nobody")


@dataclass(frozen=True)
class Account:
    """A user of this machine. `switch_*` let `subprocess` become that user; None if this process runs as that user."""

    name: str
    uid: int
    gid: int

    @property
    def is_us(self) -> bool:
        return self.uid == os.geteuid()

    @property
    def switch_user(self) -> int | None:
        return None if self.is_us else self.uid

    @property
    def switch_group(self) -> int | None:
        return None if self.is_us else self.gid

    @property
    def switch_groups(self) -> list[int] | None:
        return None if self.is_us else []


def account_for(run_as: str | None = None, data: Path | None = None) -> Account:
    """Returns the user that runs the cluster: this process's user, unless that is root.

    For root, it is `run_as` if given, else the owner of `data`, else a default. Raises ConfigurationError if `run_as`
    cannot be used, DataDirectoryUnusable if `data` belongs to another user.
    """
    owner = data.stat().st_uid if data is not None and data.exists() else None
    account = _chosen(run_as, owner)
    if owner is not None and owner != account.uid:
        raise DataDirectoryUnusable(
            f"{data} belongs to user {_name(owner)}, and PostgreSQL would run as user {account.name}: run this command "
            f"as {_name(owner)}, or choose another directory with --data-dir."
        )
    return account


def _chosen(run_as: str | None, owner: int | None) -> Account:
    if os.geteuid() != 0:
        return _unless_another(run_as)
    if run_as is not None:
        return _named(run_as)
    return _of(owner) if owner else _default()


def ourselves() -> Account:
    return Account(_name(os.geteuid()), os.geteuid(), os.getegid())


def _unless_another(run_as: str | None) -> Account:
    us = ourselves()
    if run_as not in (None, us.name):
        raise ConfigurationError(
            f"Only root can run PostgreSQL as {run_as}: leave that user out to run PostgreSQL as {us.name}."
        )
    return us


def _named(name: str) -> Account:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise ConfigurationError(
            f"There is no user {name} on this machine to run PostgreSQL as: create this user, or name another user."
        ) from None
    if entry.pw_uid == 0:
        raise ConfigurationError("PostgreSQL refuses to run as root: name another user, such as postgres or nobody.")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _of(uid: int) -> Account:
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise ConfigurationError(
            f"The data belongs to user id {uid}, which has no name on this machine: create this user, or name another "
            "user."
        ) from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _default() -> Account:
    known = {entry.pw_name for entry in pwd.getpwall()}
    for name in DEFAULT_NAMES:
        if name in known:
            return _named(name)
    raise ConfigurationError(
        "PostgreSQL refuses to run as root, and there is neither a user postgres nor a user nobody: name a user."
    )


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
