"""Which status each error is answered with, and what the answer tells of it: the one table."""

from typing import Any

from interlock import errors
from interlock.errors import InterlockError

STATUSES: dict[type[InterlockError], tuple[int, tuple[str, ...]]] = {
    InterlockError: (500, ()),
    # What was asked for cannot be.
    errors.BadSpec: (422, ()),
    errors.InvalidName: (422, ("name",)),
    errors.NotSupported: (422, ()),
    errors.OnceConflict: (422, ()),
    errors.RecordUnknown: (404, ()),
    # Not now, or not beside something else.
    errors.RecordError: (409, ()),
    errors.RecordBusy: (409, ("orchestration",)),
    errors.RecordChanged: (412, ("revision",)),
    errors.NameTaken: (409, ("name", "owner")),
    errors.BackupError: (409, ()),
    errors.BackupUnusable: (409, ()),
    errors.BackupDamaged: (409, ()),
    errors.IllegalTransition: (409, ("state", "event")),
    errors.InstanceAbsent: (409, ("id",)),
    errors.BeingRemoved: (409, ()),
    errors.ForeignResource: (409, ()),
    errors.DnsForeign: (409, ("name", "owner")),
    # The system behind us.
    errors.DriverError: (502, ()),
    errors.DriverUnreachable: (502, ()),
    errors.DriverElsewhere: (502, ("owner",)),
    errors.OutOfPorts: (507, ()),
    errors.OutOfSpace: (507, ()),
    errors.TooManyInstances: (507, ()),
    errors.DnsError: (502, ("name",)),
    errors.DnsUnreachable: (502, ("name",)),
    errors.DnsDenied: (502, ("name",)),
    errors.DnsClockSkewed: (502, ("name",)),
    errors.DnsZoneUnknown: (502, ("name",)),
    errors.DnsFailed: (502, ("name",)),
    errors.BackupMissing: (502, ()),
    errors.BackupFailed: (502, ()),
    # Somebody else is at it.
    errors.LeaseTimeout: (503, ()),
    # The database, which may be back in a moment.
    errors.StoreError: (503, ()),
    errors.RetryTransaction: (503, ()),
    errors.StatementFailed: (500, ()),
    errors.PermissionMissing: (500, ()),
}


def status_of(error: InterlockError) -> int:
    return _line(error)[0]


def facts_of(error: InterlockError) -> dict[str, Any]:
    return {name: getattr(error, name) for name in _line(error)[1]}


def _line(error: InterlockError) -> tuple[int, tuple[str, ...]]:
    """Its own, or that of what it is a kind of."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
