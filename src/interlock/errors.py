"""Every error that Interlock raises, in one tree.

::

    InterlockError
    ├── ConfigurationError          a setting is missing, malformed, or contradicts another
    │   └── NotSupported            this kind of database cannot do that
    ├── StoreError
    │   ├── DatabaseUnreachable     nobody answers at that address, or it does not answer in time
    │   ├── AccessDenied            the server answers and refuses the role, password or database
    │   ├── PermissionMissing       logged in, but the role may not do this
    │   ├── StatementFailed         the server refused a statement for a reason of its own
    │   ├── LockNotAvailable        a row or table stayed locked longer than the statement may wait
    │   ├── ConnectionLost          the connection ended under us
    │   ├── PoolerRefused           a connection pooler stands where a direct connection is needed
    │   ├── StoreThrottled          the database takes no more requests for now
    │   ├── NotPrimary              connected to a standby
    │   └── UnsupportedServer       the server is older than PostgreSQL 14
    ├── SchemaError
    │   ├── SchemaMissing           Interlock's tables are not there
    │   ├── SchemaOutdated          they are there, older than this release needs
    │   ├── SchemaTooNew            a newer release changed them in a way that this one cannot work with
    │   ├── SchemaForeign           a schema of that name exists and is not ours
    │   └── MigrationBlocked        a table stayed locked by others through every attempt
    ├── GateError
    │   ├── GateNotPassed
    │   │   ├── GateBusy            another replica is migrating, and the policy is not to wait
    │   │   ├── GateTimeout         waited as long as was asked
    │   │   └── PredecessorAlive    a migrator that died left sessions that we may not end
    │   ├── GateLost                the gate's lock went away while the migration ran
    │   ├── CheckFailed             the "is it current?" check itself broke
    │   └── StepError
    │       ├── StepRefused         a step's precondition does not hold
    │       └── StepHalfDone        a step was begun and never finished; a person has to look
    ├── LeaseError
    │   ├── LeaseNotAcquired
    │   │   ├── LeaseBusy           another holds it, and the caller asked not to wait
    │   │   └── LeaseTimeout        waited as long as was asked
    │   ├── LeaseLost               a lease that was held is held no more, or can no longer be trusted
    │   ├── LeaseNested             this task or thread holds that lease already: waiting for it would never end
    │   └── GuardRefused            this connection cannot carry a guard as it stands
    ├── SessionLockError
    │   ├── SessionLockNotAcquired
    │   │   └── SessionLockTimeout  waited as long as was asked
    │   ├── SessionLockLost         the session that held it ended
    │   └── SessionLockNested       this task or thread holds that lock already: waiting for it would never end
    ├── OnceConflict                something else was run once under that key
    ├── OnceInterrupted             it was begun under that key, and nobody knows whether it was done
    ├── InvalidName                 not a name that can be claimed
    ├── IllegalTransition           no such event in that state
    ├── ConnectionUnfit             this connection cannot take part as it stands
    ├── RetryTransaction            somebody else has changed what this transaction goes by: run it again
    ├── DurableError
    │   ├── OrchestrationConflict   something else was asked for under that id
    │   ├── OrchestrationUnknown    there is no orchestration of that id
    │   ├── OrchestrationEnded
    │   │   ├── OrchestrationFailed     it ended with an error
    │   │   └── OrchestrationCancelled  it was cancelled
    │   ├── ActivityFailed          an activity failed, and was tried as often as its policy allows
    │   ├── AttemptSuperseded       another replica has gone on with this step: what this one does must not count
    │   ├── DoNotRetry              raised by an activity: trying again would not help
    │   │   └── RecordOvertaken     another orchestration works on that record now
    │   └── ClockSkewed             this machine's clock and the database's differ too much
    ├── EmbeddedError
    │   ├── BinariesMissing         no PostgreSQL binaries on this machine
    │   ├── DataDirectoryUnusable   cannot be created, read or written, or belongs to something else
    │   ├── ClusterFailed           PostgreSQL did not initialise, start or stop
    │   └── TlsUnavailable          these binaries are built without TLS
    ├── CommandNotStarted
    │   ├── CommandNotFound         there is no such program
    │   └── CommandNotExecutable    it is there and cannot be executed
    ├── CommandFailed               it ran and failed
    ├── CommandAtLarge              something of it may have survived its end
    ├── AddressInUse                the port to listen on is taken
    ├── DnsError
    │   ├── DnsUnreachable          the name server does not answer, or not in time
    │   ├── DnsDenied               it answers, and does not let this key do that
    │   ├── DnsClockSkewed          it refuses the signature, because its clock and this machine's differ too much
    │   ├── DnsZoneUnknown          it does not have the zone that the name would be in
    │   ├── DnsForeign              the name has records that are not this owner's
    │   └── DnsFailed               it could not do it, or gave an answer that cannot be trusted
    ├── DriverError
    │   ├── BadSpec                 what was asked for is malformed, or more than the driver has
    │   ├── ForeignResource         something of that name is there and is not ours
    │   ├── BeingRemoved            what is there is still on its way out, or was changed meanwhile: try again
    │   ├── InstanceAbsent          the driver has nothing of that id
    │   ├── OutOfPorts              every port of the range is taken
    │   ├── TooManyInstances        there are as many as the driver may have
    │   ├── OutOfSpace              the disk, or the quota, is full
    │   ├── DriverUnreachable       the system that the driver talks to does not answer, or refuses us
    │   └── DriverElsewhere         the driver serves another machine, or another directory
    ├── RecordError
    │   ├── NameTaken               the name, or the DNS name, is another record's
    │   ├── RecordChanged           it was changed since the request was made up from it
    │   ├── RecordUnknown           there is no record of it, or it is deleted
    │   │   ├── InstanceUnknown
    │   │   ├── BackupUnknown
    │   │   └── DriftUnknown        nothing of that number has drifted, or not any more
    │   └── RecordBusy              something works on it just now
    │       ├── InstanceBusy
    │       └── BackupBusy          or is being restored from it
    ├── BackupError
    │   ├── BackupUnusable          it was not made, or cannot be restored there
    │   ├── BackupMissing           its files are not where they should be, as seen from this machine
    │   ├── BackupDamaged           its files are not what was written
    │   └── BackupFailed            PostgreSQL's own program could not do it
    └── ServerError
        ├── ServerUnreachable       no control plane answers there, or not in time
        ├── KeyRefused              it answers, and does not take this key
        ├── ServerRefused           it answers that it cannot, or will not, do that
        └── StillWorking            waited as long as was asked, and it goes on

A message is one sentence that says what happened and what to do next. What a program may want to know is in
attributes. `exit_status` is what the command line exits with; the numbers are those of ``sysexits.h``. `code` is the
error's name for programs, on records, in the API's answers and in JSON: ``name_taken`` for `NameTaken`. See `codes`.
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
    """Base of everything that Interlock raises on purpose."""

    exit_status: int = EX_SOFTWARE
    code: str = "error"

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "code" not in vars(cls):
            cls.code = spelled(cls.__name__)


def spelled(name: str) -> str:
    """The name of a class as a code: ``name_taken`` for ``NameTaken``."""
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
    """`sqlstate` is the server's own code."""

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
    """`gate` is the gate's name as status shows it."""

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
    """`pids` are the server processes that have to end first."""

    def __init__(self, message: str, *, gate: str, pids: Sequence[int]) -> None:
        super().__init__(message, gate=gate)
        self.pids = tuple(pids)


class GateLost(GateError):
    exit_status = EX_IOERR


class CheckFailed(GateError):
    pass


class StepError(GateError):
    """`step` is the key the step was recorded under."""

    def __init__(self, message: str, *, gate: str, step: str) -> None:
        super().__init__(message, gate=gate)
        self.step = step


class StepRefused(StepError):
    pass


class StepHalfDone(StepError):
    pass


class LeaseError(InterlockError):
    """`name` is the lease's."""

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
    """`token` is the fencing token of the grant that was lost. If an operator broke the lease, `broken_by` says who,
    and `reason` why, if one was given."""

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
    """`name` is the lock's."""

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
    """`key` is what it was to be run under."""

    exit_status = EX_DATAERR

    def __init__(self, message: str, *, key: str) -> None:
        super().__init__(message)
        self.key = key


class OnceInterrupted(InterlockError):
    """`key` is what it was begun under."""

    exit_status = EX_TEMPFAIL

    def __init__(self, message: str, *, key: str) -> None:
        super().__init__(message)
        self.key = key


class InvalidName(InterlockError):
    """`name` is what was given."""

    exit_status = EX_DATAERR

    def __init__(self, message: str, *, name: str) -> None:
        super().__init__(message)
        self.name = name


class IllegalTransition(InterlockError):
    """`state` is where it stands, `event` what was to happen."""

    exit_status = EX_DATAERR

    def __init__(self, message: str, *, state: str, event: str) -> None:
        super().__init__(message)
        self.state = state
        self.event = event


class ConnectionUnfit(InterlockError):
    """`why` is the reason, and what to do."""

    exit_status = EX_CONFIG

    def __init__(self, message: str, *, why: str) -> None:
        super().__init__(message)
        self.why = why


class RetryTransaction(InterlockError):
    """`sqlstate` is the server's own code; the driver's error is the cause."""

    exit_status = EX_TEMPFAIL

    def __init__(self, message: str, *, sqlstate: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class DurableError(InterlockError):
    """A `code` that is given is kept from an activity up to the caller that waits for its orchestration."""

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class OrchestrationConflict(DurableError):
    exit_status = EX_DATAERR


class OrchestrationUnknown(DurableError):
    exit_status = EX_DATAERR


class OrchestrationEnded(DurableError):
    """`id` is the orchestration's."""

    def __init__(self, message: str, *, id: str, code: str | None = None) -> None:  # noqa: A002 # its name everywhere
        super().__init__(message, code=code)
        self.id = id


class OrchestrationFailed(OrchestrationEnded):
    pass


class OrchestrationCancelled(OrchestrationEnded):
    code = "cancelled"


class ActivityFailed(DurableError):
    """`activity` is its name."""

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
    """`log_tail` is the end of PostgreSQL's own log."""

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
    """`status` is the command's own exit status."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class CommandAtLarge(InterlockError):
    pass


class AddressInUse(InterlockError):
    exit_status = EX_UNAVAILABLE


class DnsError(InterlockError):
    """`name` is the host name that it is about."""

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
    """`owner` is the id that the records belong to; None: they are not Interlock's."""

    exit_status = EX_CANTCREAT

    def __init__(self, message: str, *, name: str, owner: str | None) -> None:
        super().__init__(message, name=name)
        self.owner = owner


class DnsFailed(DnsError):
    exit_status = EX_TEMPFAIL


class DriverError(InterlockError):
    """A driver of instances could not do what it was asked for."""


class BadSpec(DriverError):
    exit_status = EX_DATAERR


class ForeignResource(DriverError):
    exit_status = EX_CANTCREAT


class BeingRemoved(DriverError):
    exit_status = EX_TEMPFAIL


class InstanceAbsent(DriverError):
    """`id` is the instance's."""

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
    """`owner` is the machine and the directory that it serves."""

    exit_status = EX_CONFIG

    def __init__(self, message: str, *, owner: str) -> None:
        super().__init__(message)
        self.owner = owner


class RecordError(InterlockError):
    """A record cannot be asked for that, or not now."""


class RecordChanged(RecordError):
    """`revision` is that of the record now."""

    exit_status = EX_TEMPFAIL

    def __init__(self, message: str, *, revision: int) -> None:
        super().__init__(message)
        self.revision = revision


class NameTaken(RecordError):
    """`owner` is the id of the record whose name it is; None: another transaction is claiming or releasing it."""

    exit_status = EX_CANTCREAT

    def __init__(self, message: str, *, name: str, owner: str | None) -> None:
        super().__init__(message)
        self.name = name
        self.owner = owner


class RecordUnknown(RecordError):
    exit_status = EX_DATAERR


class RecordBusy(RecordError):
    """`orchestration` is the id of what works on it, or restores from it."""

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
    """Nothing of that number has drifted, or not any more."""


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
    """Another orchestration works on the record now."""


class ServerError(InterlockError):
    """A command could not have from the control plane what it asked for."""

    exit_status = EX_UNAVAILABLE


class ServerUnreachable(ServerError):
    pass


class KeyRefused(ServerError):
    exit_status = EX_NOPERM


class ServerRefused(ServerError):
    """`code` is the one in the answer. The exit status is that of the server's error, where that is known."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class StillWorking(ServerError):
    exit_status = EX_TEMPFAIL
