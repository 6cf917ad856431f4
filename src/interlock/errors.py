"""All errors that Interlock raises, in one tree.

::

    InterlockError
    ├── ConfigurationError          a setting is missing, malformed, or contradicts another
    │   └── NotSupported            the database, the driver or the server lacks the feature
    ├── StoreError
    │   ├── DatabaseUnreachable     no database server answers at the address, or it does not answer in time
    │   ├── AccessDenied            the server refuses the role, the password or the database
    │   ├── PermissionMissing       the role could log in, but lacks a permission for the statement
    │   ├── StatementFailed         the server refused a statement for another reason
    │   ├── LockNotAvailable        a row or table stayed locked longer than the statement may wait
    │   ├── ConnectionLost          the connection ended while it was in use
    │   ├── PoolerRefused           the connection leads through a pooler, but Interlock needs a direct connection
    │   ├── StoreThrottled          the database accepts no more requests at the moment
    │   ├── NotPrimary              the server is a standby, and accepts no writes
    │   └── UnsupportedServer       the server is older than PostgreSQL 14
    ├── SchemaError
    │   ├── SchemaMissing           Interlock's tables do not exist
    │   ├── SchemaOutdated          Interlock's tables are older than this release needs
    │   ├── SchemaTooNew            a newer release changed the tables so that this release cannot use them
    │   ├── SchemaForeign           a schema or table of that name exists, but does not belong to Interlock
    │   └── MigrationBlocked        other sessions kept a table locked during every attempt to migrate it
    ├── GateError
    │   ├── GateNotPassed
    │   │   ├── GateBusy            another replica is migrating, and the policy is not to wait
    │   │   ├── GateTimeout         the gate did not become free within the timeout
    │   │   └── PredecessorAlive    a killed migration left database sessions behind, and this role lacks
    │   │                           the permission to end them
    │   ├── GateLost                the gate's lock was lost while the migration ran
    │   ├── CheckFailed             the check whether the schema is current raised an error
    │   └── StepError
    │       ├── StepRefused         a step's precondition does not hold
    │       └── StepHalfDone        a step began and did not complete; an operator has to check what the step did
    ├── LeaseError
    │   ├── LeaseNotAcquired
    │   │   ├── LeaseBusy           another holder has the lease, and the caller does not wait
    │   │   └── LeaseTimeout        the lease did not become free within the timeout
    │   ├── LeaseLost               a held lease was lost, or can no longer be trusted
    │   ├── LeaseNested             this task or thread already holds the lease, and would wait for itself without end
    │   └── GuardRefused            the grant's guard cannot be used in this way or on this connection
    ├── SessionLockError
    │   ├── SessionLockNotAcquired
    │   │   └── SessionLockTimeout  the lock did not become free within the timeout
    │   ├── SessionLockLost         the session that held the lock ended
    │   └── SessionLockNested       this task or thread already holds the lock, and would wait for itself without end
    ├── OnceConflict                the key was used before for a different operation
    ├── OnceInterrupted             an operation under the key began, and its outcome is unknown
    ├── InvalidName                 the text does not follow the rules for names
    ├── IllegalTransition           the current state does not allow the event
    ├── ConnectionUnfit             the connection is not in the state that the call needs
    ├── RetryTransaction            this transaction conflicts with another transaction: run it again
    ├── DurableError
    │   ├── OrchestrationConflict   the id was used before for a different orchestration
    │   ├── OrchestrationUnknown    no orchestration has that id
    │   ├── OrchestrationEnded
    │   │   ├── OrchestrationFailed     the orchestration ended with an error
    │   │   └── OrchestrationCancelled  the orchestration was cancelled
    │   ├── ActivityFailed          an activity failed as often as its retry policy allows
    │   ├── AttemptSuperseded       another replica has taken over the step: the result of this attempt must not count
    │   ├── DoNotRetry              an activity raises this error if a retry would not help
    │   │   └── RecordOvertaken     another orchestration works on the record now
    │   └── ClockSkewed             this machine's clock and the database's differ too much
    ├── EmbeddedError
    │   ├── BinariesMissing         there are no PostgreSQL binaries on this machine
    │   ├── DataDirectoryUnusable   the directory cannot be created, read or written, or belongs to another program
    │   ├── ClusterFailed           PostgreSQL did not initialise, start or stop
    │   └── TlsUnavailable          the PostgreSQL binaries have no TLS, or the package cryptography is missing
    ├── CommandNotStarted
    │   ├── CommandNotFound         no program has that name
    │   └── CommandNotExecutable    the program exists and cannot be executed
    ├── CommandFailed               the command ran and failed
    ├── CommandAtLarge              the command's supervisors were killed, so its processes may still run
    ├── AddressInUse                the port to listen on is in use
    ├── DnsError
    │   ├── DnsUnreachable          the name server does not answer, or does not answer in time
    │   ├── DnsDenied               the name server does not allow this key to make the change
    │   ├── DnsClockSkewed          the name server refuses the signature: its clock and this machine's differ too much
    │   ├── DnsZoneUnknown          the name server does not have the zone of the name
    │   ├── DnsForeign              the name has records of another owner
    │   └── DnsFailed               the name server failed, or its answer cannot be trusted
    ├── DriverError
    │   ├── BadSpec                 the request is malformed, or asks for more than the driver has
    │   ├── ForeignResource         a resource of that name exists, but does not belong to Interlock
    │   ├── BeingRemoved            the resource is still being removed, or was changed during the request: try again
    │   ├── InstanceAbsent          the driver has no instance of that id
    │   ├── OutOfPorts              every port of the range is in use
    │   ├── TooManyInstances        the driver has as many instances as its limit allows
    │   ├── OutOfSpace              the disk or the quota is full
    │   ├── DriverUnreachable       the system behind the driver does not answer, or refuses access
    │   └── DriverElsewhere         the driver's instances are on another machine or in another directory
    ├── RecordError
    │   ├── NameTaken               another record has the name or the DNS name
    │   ├── RecordChanged           the record has changed since the revision that the request names
    │   ├── RecordUnknown           no record has that id or name, or the record is deleted
    │   │   ├── InstanceUnknown
    │   │   ├── BackupUnknown
    │   │   └── DriftUnknown        no drift finding has that number, or the finding is closed
    │   └── RecordBusy              an orchestration works on the record at this moment
    │       ├── InstanceBusy
    │       └── BackupBusy          an orchestration works on the backup, or an instance is being restored from it
    ├── BackupError
    │   ├── BackupUnusable          the backup is not complete, or cannot be restored to that instance
    │   ├── BackupMissing           the backup's files cannot be found from this machine
    │   ├── BackupDamaged           the backup's files differ from what was written
    │   └── BackupFailed            pg_dump or pg_restore failed
    └── ServerError
        ├── ServerUnreachable       no control plane answers at the address, or it does not answer in time
        ├── KeyRefused              the control plane does not accept the API key
        ├── ServerRefused           the control plane refused the request
        └── StillWorking            the requested work did not end within the timeout, and continues

A message is one sentence: what happened, and what to do next. Details for programs are in attributes. `exit_status` is
the exit status of the command line, with the numbers of ``sysexits.h``. `code` is the error's name for programs: on
records, in answers of the API and in JSON. The code of `NameTaken` is ``name_taken``; see `codes`.
"""

import re
from collections.abc import Sequence
from typing import Any

EX_DATAERR = 65
EX_UNAVAILABLE = 69
EX_SOFTWARE = 70
EX_CANTCREAT = 73
EX_IOERR = 74
EX_TEMPFAIL = 75
EX_NOPERM = 77
EX_CONFIG = 78


class InterlockError(Exception):
    """The base class of all errors that Interlock raises on purpose."""

    exit_status: int = EX_SOFTWARE
    code: str = "error"

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "code" not in vars(cls):
            cls.code = code_of_class(cls.__name__)


def code_of_class(name: str) -> str:
    """Returns the code for the name of a class: ``name_taken`` for ``NameTaken``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class ConfigurationError(InterlockError):
    exit_status = EX_CONFIG


class NotSupported(ConfigurationError):
    pass


class StoreError(InterlockError):
    exit_status = EX_UNAVAILABLE


class DatabaseUnreachable(StoreError):
    pass


class AccessDenied(StoreError):
    exit_status = EX_NOPERM


class PermissionMissing(StoreError):
    exit_status = EX_NOPERM


class StatementFailed(StoreError):
    """`sqlstate` is the server's error code."""

    exit_status = EX_SOFTWARE

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class LockNotAvailable(StoreError):
    exit_status = EX_TEMPFAIL


class ConnectionLost(StoreError):
    pass


class PoolerRefused(StoreError):
    exit_status = EX_CONFIG


class StoreThrottled(StoreError):
    exit_status = EX_TEMPFAIL


class NotPrimary(StoreError):
    pass


class UnsupportedServer(StoreError):
    exit_status = EX_CONFIG


class SchemaError(InterlockError):
    exit_status = EX_CONFIG


class SchemaMissing(SchemaError):
    pass


class SchemaOutdated(SchemaError):
    pass


class SchemaTooNew(SchemaError):
    pass


class SchemaForeign(SchemaError):
    pass


class MigrationBlocked(SchemaError):
    exit_status = EX_TEMPFAIL


class GateError(InterlockError):
    """`gate` is the name of the gate, as `interlock gate status` shows it."""

    def __init__(self, message: str, *, gate: str) -> None:
        super().__init__(message)
        self.gate = gate


class GateNotPassed(GateError):
    exit_status = EX_TEMPFAIL


class GateBusy(GateNotPassed):
    pass


class GateTimeout(GateNotPassed):
    pass


class PredecessorAlive(GateNotPassed):
    """`pids` are the process ids of the database sessions that have to end first."""

    def __init__(self, message: str, *, gate: str, pids: Sequence[int]) -> None:
        super().__init__(message, gate=gate)
        self.pids = tuple(pids)


class GateLost(GateError):
    exit_status = EX_IOERR


class CheckFailed(GateError):
    pass


class StepError(GateError):
    """`step` is the key under which the step is recorded."""

    def __init__(self, message: str, *, gate: str, step: str) -> None:
        super().__init__(message, gate=gate)
        self.step = step


class StepRefused(StepError):
    pass


class StepHalfDone(StepError):
    pass


class LeaseError(InterlockError):
    """`name` is the name of the lease."""

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class LeaseNotAcquired(LeaseError):
    exit_status = EX_TEMPFAIL


class LeaseBusy(LeaseNotAcquired):
    pass


class LeaseTimeout(LeaseNotAcquired):
    pass


class LeaseLost(LeaseError):
    """`token` is the fencing token of the lost grant. If an operator broke the lease, `broken_by` is the operator's
    name, and `reason` is the reason that the operator gave, or None."""

    exit_status = EX_IOERR

    def __init__(
        self, message: str, *, name: str, token: int, broken_by: str | None = None, reason: str | None = None
    ) -> None:
        super().__init__(message, name=name)
        self.token = token
        self.broken_by = broken_by
        self.reason = reason


class LeaseNested(LeaseError):
    pass


class GuardRefused(LeaseError):
    pass


class SessionLockError(InterlockError):
    """`name` is the name of the lock."""

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class SessionLockNotAcquired(SessionLockError):
    exit_status = EX_TEMPFAIL


class SessionLockTimeout(SessionLockNotAcquired):
    pass


class SessionLockLost(SessionLockError):
    exit_status = EX_IOERR


class SessionLockNested(SessionLockError):
    pass


class OnceConflict(InterlockError):
    """`key` is the key of the operation."""

    exit_status = EX_DATAERR

    def __init__(self, message: str, *, key: str) -> None:
        super().__init__(message)
        self.key = key


class OnceInterrupted(InterlockError):
    """`key` is the key of the operation."""

    exit_status = EX_TEMPFAIL

    def __init__(self, message: str, *, key: str) -> None:
        super().__init__(message)
        self.key = key


class InvalidName(InterlockError):
    """`name` is the refused text."""

    exit_status = EX_DATAERR

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class IllegalTransition(InterlockError):
    """`state` is the current state, and `event` is the event that this state does not allow."""

    exit_status = EX_DATAERR

    def __init__(self, message: str, *, state: str, event: str) -> None:
        super().__init__(message)
        self.state = state
        self.event = event


class ConnectionUnfit(InterlockError):
    """`why` is the part of the message that gives the reason and the remedy."""

    exit_status = EX_CONFIG

    def __init__(self, message: str, *, why: str) -> None:
        super().__init__(message)
        self.why = why


class RetryTransaction(InterlockError):
    """`sqlstate` is the server's error code; the driver's error is the `__cause__`."""

    exit_status = EX_TEMPFAIL

    def __init__(self, message: str, *, sqlstate: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class DurableError(InterlockError):
    """A `code` passes unchanged from an activity to the caller that waits for the orchestration."""

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class OrchestrationConflict(DurableError):
    exit_status = EX_DATAERR


class OrchestrationUnknown(DurableError):
    exit_status = EX_DATAERR


class OrchestrationEnded(DurableError):
    """`id` is the id of the orchestration."""

    def __init__(self, message: str, *, id: str, code: str | None = None) -> None:  # noqa: A002 # its name everywhere
        super().__init__(message, code=code)
        self.id = id


class OrchestrationFailed(OrchestrationEnded):
    pass


class OrchestrationCancelled(OrchestrationEnded):
    code = "cancelled"


class ActivityFailed(DurableError):
    """`activity` is the name of the activity."""

    def __init__(self, message: str, *, activity: str, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.activity = activity


class AttemptSuperseded(DurableError):
    pass


class DoNotRetry(DurableError):
    code = "error"


class ClockSkewed(DurableError):
    exit_status = EX_CONFIG


class EmbeddedError(InterlockError):
    pass


class BinariesMissing(EmbeddedError):
    exit_status = EX_UNAVAILABLE


class DataDirectoryUnusable(EmbeddedError):
    exit_status = EX_CANTCREAT


class ClusterFailed(EmbeddedError):
    """`log_tail` is the end of PostgreSQL's log."""

    def __init__(self, message: str, *, log_tail: str = "") -> None:
        super().__init__(message)
        self.log_tail = log_tail


class TlsUnavailable(EmbeddedError):
    exit_status = EX_CONFIG


class CommandNotStarted(InterlockError):
    pass


class CommandNotFound(CommandNotStarted):
    exit_status = 127


class CommandNotExecutable(CommandNotStarted):
    exit_status = 126


class CommandFailed(InterlockError):
    """`status` is the exit status of the command."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class CommandAtLarge(InterlockError):
    pass


class AddressInUse(InterlockError):
    exit_status = EX_UNAVAILABLE


class DnsError(InterlockError):
    """`name` is the host name."""

    exit_status = EX_UNAVAILABLE

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class DnsUnreachable(DnsError):
    pass


class DnsDenied(DnsError):
    exit_status = EX_NOPERM


class DnsClockSkewed(DnsError):
    exit_status = EX_CONFIG


class DnsZoneUnknown(DnsError):
    exit_status = EX_CONFIG


class DnsForeign(DnsError):
    """`owner` is the id of the owner of the records, or None if the records do not belong to Interlock."""

    exit_status = EX_CANTCREAT

    def __init__(self, message: str, *, name: str, owner: str | None) -> None:
        super().__init__(message, name=name)
        self.owner = owner


class DnsFailed(DnsError):
    exit_status = EX_TEMPFAIL


class DriverError(InterlockError):
    """A driver of instances could not carry out a request."""


class BadSpec(DriverError):
    exit_status = EX_DATAERR


class ForeignResource(DriverError):
    exit_status = EX_CANTCREAT


class BeingRemoved(DriverError):
    exit_status = EX_TEMPFAIL


class InstanceAbsent(DriverError):
    """`id` is the id of the instance."""

    exit_status = EX_UNAVAILABLE

    def __init__(self, message: str, *, id: str) -> None:  # noqa: A002 # its name everywhere
        super().__init__(message)
        self.id = id


class OutOfPorts(DriverError):
    exit_status = EX_UNAVAILABLE


class TooManyInstances(DriverError):
    exit_status = EX_UNAVAILABLE


class OutOfSpace(DriverError):
    exit_status = EX_CANTCREAT


class DriverUnreachable(DriverError):
    exit_status = EX_UNAVAILABLE


class DriverElsewhere(DriverError):
    """`owner` is the machine and the directory of the driver's instances."""

    exit_status = EX_CONFIG

    def __init__(self, message: str, *, owner: str) -> None:
        super().__init__(message)
        self.owner = owner


class RecordError(InterlockError):
    """A record does not allow the request, or does not allow it at this moment."""


class RecordChanged(RecordError):
    """`revision` is the current revision of the record."""

    exit_status = EX_TEMPFAIL

    def __init__(self, message: str, *, revision: int) -> None:
        super().__init__(message)
        self.revision = revision


class NameTaken(RecordError):
    """`owner` is the id of the record that has the name, or None if another transaction is claiming or releasing it."""

    exit_status = EX_CANTCREAT

    def __init__(self, message: str, *, name: str, owner: str | None) -> None:
        super().__init__(message)
        self.name = name
        self.owner = owner


class RecordUnknown(RecordError):
    exit_status = EX_DATAERR


class RecordBusy(RecordError):
    """`orchestration` is the id of the orchestration that works on the record, or that restores from the backup."""

    exit_status = EX_TEMPFAIL

    def __init__(self, message: str, *, orchestration: str) -> None:
        super().__init__(message)
        self.orchestration = orchestration


class InstanceUnknown(RecordUnknown):
    pass


class InstanceBusy(RecordBusy):
    pass


class BackupUnknown(RecordUnknown):
    pass


class BackupBusy(RecordBusy):
    pass


class DriftUnknown(RecordUnknown):
    """No drift finding has that number, or the finding is closed."""


class BackupError(InterlockError):
    """A backup cannot be made or used."""


class BackupUnusable(BackupError):
    exit_status = EX_DATAERR


class BackupMissing(BackupError):
    exit_status = EX_UNAVAILABLE


class BackupDamaged(BackupError):
    exit_status = EX_DATAERR


class BackupFailed(BackupError):
    exit_status = EX_UNAVAILABLE


class RecordOvertaken(DoNotRetry):
    """Another orchestration works on the record now. The step that raises this is not repeated."""


class ServerError(InterlockError):
    """A command's request to the control plane failed."""

    exit_status = EX_UNAVAILABLE


class ServerUnreachable(ServerError):
    pass


class KeyRefused(ServerError):
    exit_status = EX_NOPERM


class ServerRefused(ServerError):
    """`code` is the code in the answer. If an error class has this code, the exit status is the one of that class."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class StillWorking(ServerError):
    exit_status = EX_TEMPFAIL
