"""Runs any command under a lease: no part of it lives on when the lease is lost, or when we are killed.

Who does what. We hold the lease and renew it, and each renewal moves the moment up to which the command's supervisor
lets it run; that moment comes before anybody else could have the lease. When we learn of a loss, everything of the
command gets SIGTERM, and SIGKILL a margin later. When we are stopped or cut off, the supervisor kills it in time. When
we are killed, it kills it at once, and the lease expires. The lease is given back only when nothing of it is left.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from interlock import errors
from interlock.commands import CommandResult, Forwarding, Standby, SupervisedCommand
from interlock.coordination.grant import AsyncGrant
from interlock.coordination.lease import AsyncLease
from interlock.coordination.root import AsyncInterlock
from interlock.logs import events

if TYPE_CHECKING:
    from interlock.coordination.once import Once
    from interlock.coordination.periodic import AsyncPeriodic

log = events(__name__)

NAME, TOKEN, GRANT_ID = "INTERLOCK_LEASE_NAME", "INTERLOCK_LEASE_TOKEN", "INTERLOCK_LEASE_GRANT_ID"
"""What a command under a lease finds in its environment."""

_SCHEMA_TROUBLE = ("3F000", "42883")
"""There is no such schema, no such function."""

MakePeriodic = Callable[[str, Callable[[AsyncGrant], Awaitable[object]]], "AsyncPeriodic"]


async def run_command(
    locks: AsyncInterlock,
    lease: AsyncLease,
    argv: Sequence[str],
    *,
    timeout: float | None,
    environment: Mapping[str, str],
    standby: Standby | None = None,
) -> int:
    """Acquire the lease, run the command under it, give the lease back, and return the command's exit status.

    Closes `locks`. With a `timeout` of 0 it does not wait for the lease. A signal that comes before the command runs
    ends the wait, and the status is 128 and its number; later it goes to the command. The command gets `environment`,
    and in it which grant it belongs to. `standby` is a supervisor for it that was started before. Raises
    `LeaseNotAcquired`, or `LeaseLost` after the command was stopped.
    """
    with Forwarding() as signals:
        try:
            grant = await signals.unless_stopped(_acquire(locks, lease, timeout))
            if grant is None:
                return _stopped(signals)
            async with grant:
                result = await _supervised(grant, signals, argv, environment, standby)
        finally:
            await locks.close()
    return _judged(lease.name, result)


async def lead_command(
    locks: AsyncInterlock, lease: AsyncLease, argv: Sequence[str], *, environment: Mapping[str, str]
) -> int:
    """Run the command in each term of ours, until it ends by itself; that is its exit status. Closes `locks`."""
    with Forwarding() as signals:
        try:
            while True:
                grant = await signals.unless_stopped(_acquire(locks, lease, None))
                if grant is None:
                    return _stopped(signals)
                try:
                    async with grant:
                        result = await _supervised(grant, signals, argv, environment)
                    return _judged(lease.name, result)
                except errors.LeaseLost as error:
                    log.warning("election.term_over", extra={"lease": lease.name, "why": str(error)})
                if signals.stopped_by is not None:
                    return _stopped(signals)
                signals.come_back()
        finally:
            await locks.close()


async def run_command_once(
    locks: AsyncInterlock,
    once: "Once",
    argv: Sequence[str],
    *,
    timeout: float | None,
    environment: Mapping[str, str],
) -> int:
    """Run the command if it has not succeeded under that key; 0 if it has, now or before. Closes `locks`."""
    with Forwarding() as signals:

        async def work(grant: AsyncGrant) -> bool:
            if status := _judged(once.key, await _supervised(grant, signals, argv, environment)):
                raise _Failed(status)
            return True

        try:
            done = await signals.unless_stopped(once.run(locks.engine(), object(), timeout, work))
        except _Failed as failure:
            return failure.status
        finally:
            await locks.close()
        return 0 if done else _stopped(signals)


async def run_command_every(
    locks: AsyncInterlock, make: MakePeriodic, name: str, argv: Sequence[str], *, environment: Mapping[str, str]
) -> int:
    """Run the command at each tick that is ours, until a signal comes. Closes `locks`.

    A run that a signal ends is left unfinished, for another to take over.
    """
    with Forwarding() as signals:

        async def work(grant: AsyncGrant) -> None:
            try:
                status = _judged(name, await _supervised(grant, signals, argv, environment))
            finally:
                signals.come_back()
            if status and signals.stopped_by is not None:
                raise asyncio.CancelledError
            if status:
                log.warning("periodic.command_failed", extra={"lease": name, "status": status})

        try:
            await signals.unless_stopped(make(name, work).run(until=lambda: signals.stopped_by is not None))
        finally:
            await locks.close()
        return _stopped(signals)


class _Failed(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


def _stopped(signals: Forwarding) -> int:
    return 128 + (signals.stopped_by or 0)


async def _acquire(locks: AsyncInterlock, lease: AsyncLease, timeout: float | None) -> AsyncGrant:
    try:
        grant = await lease.try_acquire() if timeout == 0 else await lease.acquire(timeout)
    except errors.StatementFailed as error:
        if error.sqlstate in _SCHEMA_TROUBLE:
            await locks.open()  # says what is wrong with the schema
        raise
    if grant is None:
        raise errors.LeaseBusy(
            f"The lease {lease.name!r} is not to be had now: `interlock lease list {lease.name}` says who holds it.",
            name=lease.name,
        )
    return grant


async def _supervised(
    grant: AsyncGrant,
    signals: Forwarding,
    argv: Sequence[str],
    environment: Mapping[str, str],
    standby: Standby | None = None,
) -> CommandResult:
    ours = {
        NAME: grant.name,
        TOKEN: str(grant.token),
        GRANT_ID: str(grant.grant_id),
        "INTERLOCK_SCHEMA": grant.schema,
    }
    command = await SupervisedCommand.start(
        argv, trust_until=grant.trusted_until, env={**environment, **ours}, standby=standby
    )
    grant.on_renewed(command.extend)
    command.extend(grant.trusted_until)  # it may have been renewed while the command was started
    signals.go_to(command)
    try:
        result = await command.wait()
    except asyncio.CancelledError:  # the lease is lost
        await command.stop(grant.timing.margin)
        raise
    if result.ended_by == "deadline":
        raise grant.error()
    return result


def _judged(name: str, result: CommandResult) -> int:
    if result.left_behind:
        log.warning("lease.left_behind", extra={"lease": name, "processes": result.left_behind})
    if not result.all_ended:
        raise errors.LeaseError(
            f"The command's supervisors were both killed, and something of it may live on although the lease {name!r} "
            "was given back: look for it on this machine.",
            name=name,
        )
    return result.exit_status
