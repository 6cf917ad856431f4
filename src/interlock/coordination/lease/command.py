"""Runs any command under a lease: all its processes end when the lease is lost, or when this process is killed.

Each function puts the grant into the command's environment, and closes the root object at the end. A signal that comes
before the command runs ends the wait, and the exit status is 128 plus the signal's number. A later signal goes to the
command.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interlock import errors
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.lease import AsyncLease
from interlock.coordination.root import AsyncInterlock
from interlock.logs import events
from interlock.supervision import SignalForwarder, SupervisorProcess, run_under, status_of

if TYPE_CHECKING:
    from interlock.coordination.primitives.once import Once
    from interlock.coordination.primitives.periodic import AsyncPeriodic

log = events(__name__)

NAME, TOKEN, GRANT_ID = "INTERLOCK_LEASE_NAME", "INTERLOCK_LEASE_TOKEN", "INTERLOCK_LEASE_GRANT_ID"
"""Variables in the environment of a command under a lease."""

_NO_SCHEMA = ("3F000", "42883")
"""The SQLSTATEs of a missing schema and a missing function."""

MakePeriodic = Callable[[str, Callable[[AsyncGrant], Awaitable[object]]], "AsyncPeriodic"]


async def run_command(
    locks: AsyncInterlock,
    lease: AsyncLease,
    argv: Sequence[str],
    *,
    timeout: float | None,
    environment: Mapping[str, str],
    supervisor: SupervisorProcess | None = None,
    at_least: float = 0.0,
) -> int:
    """Acquire the lease, run the command under it, release the lease, and return the command's exit status.

    The lease stays held until `at_least` seconds after it was acquired; its ttl must not be shorter than `at_least`.
    `interlock.coordination.engine.minimum_hold` says what a crash leaves behind in this case.

    With a `timeout` of 0 the function does not wait for the lease. `supervisor` is a supervisor that was started for
    the command before this call. Raises `LeaseNotAcquired`, or `LeaseLost` after the command was stopped.
    """

    async def work(signals: SignalForwarder) -> int:
        async with await _acquire(locks, lease, timeout) as grant:
            if at_least:
                await locks.engine().confirm(grant)
            try:
                return await _run(grant, signals, argv, environment, supervisor)
            finally:
                await locks.engine().end_after_minimum(grant, at_least)

    return await _exit_status(locks, work)


async def lead_command(
    locks: AsyncInterlock, lease: AsyncLease, argv: Sequence[str], *, environment: Mapping[str, str]
) -> int:
    """Run the command in each term of this process, until the command ends by itself. Returns its exit status."""

    async def work(signals: SignalForwarder) -> int:
        while signals.stopped_by is None:
            try:
                async with await _acquire(locks, lease, None) as grant:
                    return await _run(grant, signals, argv, environment)
            except errors.LeaseLost as error:
                log.warning("election.term_over", extra={"lease": lease.name, "why": str(error)})
                signals.stop_forwarding()
        return signals.status

    return await _exit_status(locks, work)


async def run_command_once(
    locks: AsyncInterlock,
    once: "Once",
    argv: Sequence[str],
    *,
    timeout: float | None,
    environment: Mapping[str, str],
) -> int:
    """Run the command unless it has already succeeded under this key. Returns 0 if the command has succeeded, now or
    earlier."""

    async def work(signals: SignalForwarder) -> int:
        async def run(grant: AsyncGrant) -> bool:
            if status := await _run(grant, signals, argv, environment):
                raise errors.CommandFailed(f"The command ended with status {status}.", status=status)
            return True

        await once.run(locks.engine(), object(), timeout, run)
        return 0

    return await _exit_status(locks, work)


async def run_command_every(
    locks: AsyncInterlock, make: MakePeriodic, name: str, argv: Sequence[str], *, environment: Mapping[str, str]
) -> int:
    """Run the command at each tick at which this process gets the lease, until a signal comes.

    If a signal ends a run, the run stays unfinished, and another process takes it over.
    """

    async def work(signals: SignalForwarder) -> int:
        async def run(grant: AsyncGrant) -> None:
            try:
                status = await _run(grant, signals, argv, environment)
            finally:
                signals.stop_forwarding()
            if status and signals.stopped_by is not None:
                raise asyncio.CancelledError
            if status:
                log.warning("periodic.command_failed", extra={"lease": name, "status": status})

        await make(name, run).run(until=lambda: signals.stopped_by is not None)
        return signals.status

    return await _exit_status(locks, work)


async def _exit_status(locks: AsyncInterlock, work: Callable[[SignalForwarder], Coroutine[Any, Any, int]]) -> int:
    with SignalForwarder() as signals:
        try:
            return await signals.exit_status(work(signals))
        finally:
            await locks.close()


async def _acquire(locks: AsyncInterlock, lease: AsyncLease, timeout: float | None) -> AsyncGrant:
    try:
        grant = await lease.try_acquire() if timeout == 0 else await lease.acquire(timeout)
    except errors.StatementFailed as error:
        if error.sqlstate in _NO_SCHEMA:
            await locks.open()  # raises an error that says what is wrong with the schema
        raise
    if grant is None:
        raise errors.LeaseBusy(
            f"The lease {lease.name!r} is not available now: `interlock lease list {lease.name}` shows its holder.",
            name=lease.name,
        )
    return grant


async def _run(
    grant: AsyncGrant,
    signals: SignalForwarder,
    argv: Sequence[str],
    environment: Mapping[str, str],
    supervisor: SupervisorProcess | None = None,
) -> int:
    lease_variables = {
        NAME: grant.name,
        TOKEN: str(grant.token),
        GRANT_ID: str(grant.grant_id),
        "INTERLOCK_SCHEMA": grant.schema,
    }
    result = await run_under(
        grant,
        argv,
        signals,
        environment={**environment, **lease_variables},
        grace=grant.timing.margin,
        supervisor=supervisor,
    )
    return status_of(result, grant, lease=grant.name)
