"""The HTTP status of each error, and the error's attributes that its answer contains."""

from typing import Any

from interlock import errors
from interlock.errors import InterlockError

STATUSES: dict[type[InterlockError], tuple[int, tuple[str, ...]]] = {
    InterlockError: (500, ()),
    # The request cannot be carried out as it is.
    errors.BadSpec: (422, ()),
    errors.InvalidName: (422, ("name",)),
    errors.NotSupported: (422, ()),
    errors.OnceConflict: (422, ()),
    errors.RecordUnknown: (404, ()),
    # The request conflicts with the current state or with another record.
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
    # A system that the control plane uses failed, or is full.
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
    # Another replica is busy with the same task.
    errors.LeaseTimeout: (503, ()),
    # The database does not answer, and may do so again in a moment.
    errors.StoreError: (503, ()),
    errors.RetryTransaction: (503, ()),
    errors.StatementFailed: (500, ()),
    errors.PermissionMissing: (500, ()),
}


def status_of(error: InterlockError) -> int:
    return _row(error)[0]


def facts_of(error: InterlockError) -> dict[str, Any]:
    return {name: getattr(error, name) for name in _row(error)[1]}


def _row(error: InterlockError) -> tuple[int, tuple[str, ...]]:
    """The row of the error's class, or else of its nearest base class."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
