"""The migration gate: of all replicas that start, one migrates, and the others wait or go on.

A replica passes the gate in these steps:

1. A replica that finds the schema current before it requests the lock goes on without the lock.
2. ``pg_try_advisory_lock``, on a session of the replica's own, decides which replica migrates. A waiter repeats that
   statement and never waits inside it.
3. The holder first makes sure that nothing of a dead predecessor is left (`predecessor`), then checks again whether a
   migration is needed, then opens its row in ``gate_run``, and only then migrates. From then on a second session shows
   that the holder's process lives.
4. The holder trusts its lock only for a time after each heartbeat (`times`), and stops the migration when that time is
   over.

A crash before the row is open has changed nothing. After a crash while the row is open, the next holder first ends the
remains, in step 3. A crash after the migration and before the row is closed looks the same to the next holder: its
check in step 3 then finds the schema current.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Literal, TypedDict, Unpack, get_args

from interlock import config, embedded, errors, schema
from interlock.block_body import Body
from interlock.bridge import RunBlocking, in_thread
from interlock.gate import predecessor
from interlock.gate.held_lock import HeldLock
from interlock.gate.lock_session import LockSession
from interlock.gate.passage import AsyncPassage, Reason
from interlock.gate.progress import GateRecords, OpenRun, Progress, retry_while_locked
from interlock.gate.schema_version import Verdict, Version, as_verdict, check_versions, compare
from interlock.gate.sessions import open_session
from interlock.gate.steps import Ledger, call
from interlock.gate.times import Timing
from interlock.gate.wait import GateWait, held_by
from interlock.logs import events
from interlock.stores.postgres import connect
from interlock.stores.postgres.url import checked
from interlock.stores.scheme import FOR_LEASES_ALONE

log = events(__name__)

Policy = Literal["wait", "skip", "fail"]
Phase = Literal["idle", "checking", "waiting", "settling", "migrating", "passed"]
Check = Callable[[], "Verdict | bool | Awaitable[Verdict | bool]"]


class GateOptions(TypedDict, total=False):
    """The options of a gate, with their defaults."""

    url: str | None
    """The database, reached directly. Default: INTERLOCK_DATABASE_URL, else that of this machine's `interlock up`."""
    target_schema: str | None
    """The schema that is migrated, as part of the gate's name. Default: the first schema that the search path names."""
    check: Check | None
    """A function that returns True if the schema is current. The gate calls it before it requests the lock, and again
    once it holds the lock."""
    version: Version | None
    """The version to which this release migrates. With it, a schema of a newer release is recognised."""
    compatible_since: Version | None
    """The oldest version that can work with the schema once it is at `version`. Default: none but `version`."""
    policy: Policy
    """The action if another replica migrates: `wait` (default), `skip`, or `fail`."""
    timeout: float | None
    """The longest wait, in seconds. Default: no limit."""
    migration_role: str | None
    """The role of the migration's sessions, used by no other client. Default: the gate's role."""
    session_pooler: bool
    """True if the URL leads to a pooler in session mode. Default: poolers are refused."""
    on_wait: Callable[[str], object] | None
    """Called every 10 seconds during the wait, on the event loop's thread, with a sentence for the user."""
    timing: Timing | None
    """The time for which a silent migrator is trusted, and the waiters' poll interval. Default: `Timing()`."""
    own_schema: str | None
    """The schema of Interlock's tables. Default: INTERLOCK_SCHEMA, else `interlock`."""


class AsyncGate:
    """``async with AsyncGate("shop", check=is_current) as passage: if passage.needed: …``

    `app` distinguishes applications that share a database schema; `GateOptions` lists the other parameters. If the lock
    is lost, the body is cancelled and `GateLost` is raised. You may read `phase` and `holder` at any time.
    """

    def __init__(
        self,
        app: str | None = None,
        *,
        recorded: bool = True,
        run_blocking: RunBlocking = in_thread,
        **options: Unpack[GateOptions],
    ) -> None:
        if unknown := options.keys() - GateOptions.__annotations__.keys():
            raise TypeError(f"a gate has no option {', '.join(sorted(unknown))}")
        self._app = app
        self._url = _checked(options.get("url") or embedded.default_url())
        self._target_schema = options.get("target_schema")
        self._check = options.get("check")
        self._version, self._compatible_since = check_versions(options.get("version"), options.get("compatible_since"))
        self._policy = options.get("policy", "wait")
        self._timeout = options.get("timeout")
        self._migration_role = options.get("migration_role")
        self._session_pooler = options.get("session_pooler", False)
        self._timing = options.get("timing") or Timing()
        self._own_schema = options.get("own_schema") or config.own_schema()
        self._recorded = recorded
        self._run_blocking = run_blocking
        self._on_wait = options.get("on_wait")
        if self._policy not in get_args(Policy):
            raise errors.ConfigurationError(f"{self._policy!r} is not a policy: use wait, skip or fail.")
        if self._timeout is not None and not self._timeout >= 0:
            raise errors.ConfigurationError(
                f"A timeout of {self._timeout} s cannot work: use 0 s or more, or no timeout."
            )
        self._entered = False
        self._holding: HeldLock | None = None
        self._body: Body | None = None
        self.phase: Phase = "idle"
        self.holder: OpenRun | None = None

    async def __aenter__(self) -> AsyncPassage:
        passage = await self.enter()
        if self._holding:
            self._body = Body()
            self._holding.on_lost(self._body.cancel)
        return passage

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        body, self._body = self._body, None
        others_cancelled = await body.end(error) if body else False
        try:
            await self.leave(error)
        except errors.GateLost as lost:
            if others_cancelled:
                raise asyncio.CancelledError from lost
            raise

    @property
    def has_own_role(self) -> bool:
        """True if the migration has a role of its own: then every session of that role belongs to the migration."""
        return self._migration_role is not None

    async def run(self, migrate: Callable[[], Any]) -> bool:
        """Call `migrate` if a migration is needed. Returns True if `migrate` was called."""
        async with self as passage:
            if passage.needed:
                await call(migrate, self._run_blocking)
            return passage.needed

    async def enter(self) -> AsyncPassage:
        """Pass the gate; the policy decides if this waits. Call `leave` at the end.

        The loss of the gate does not cancel the caller's code.
        """
        if self._entered:
            raise errors.ConfigurationError("This gate object is in use: create one for each passage.")
        self._entered = True
        try:
            return await self._enter()
        except BaseException:
            self._entered = False
            self.phase = "idle"
            raise

    async def leave(self, failure: BaseException | None = None) -> None:
        """Record the migration's result and open the gate for other replicas."""
        holding, self._holding = self._holding, None
        self._entered = False
        self.phase = "passed" if failure is None else "idle"
        if holding:
            await holding.finish(failure)
            log.info("gate.left", extra={"gate": holding.gate, "fence": holding.fence, "failed": failure is not None})

    async def _enter(self) -> AsyncPassage:
        self.phase = "checking"
        # A version is first compared with the recorded one, which may be too new although the release's check passes.
        if self._check and self._version is None and (verdict := await self._run_check()) is not Verdict.BEHIND:
            return self._pass_without_lock(self._app or "", _reason(verdict))
        lock = await LockSession.open(
            self._url,
            app=self._app,
            schema=self._target_schema,
            timing=self._timing,
            session_pooler=self._session_pooler,
        )
        try:
            reason = await self._acquire(lock)
        except BaseException:
            await lock.session.abort()
            raise
        if reason is None:
            return await self._take_over(lock)
        await lock.close()
        return self._pass_without_lock(str(lock.name), reason)

    async def _acquire(self, lock: LockSession) -> Reason | None:
        """Wait for the lock. Returns None once the lock is held; otherwise the reason to go on without the lock."""
        wait = GateWait(self._timeout, self._on_wait)
        records = await retry_while_locked(lambda: self._records(lock), lambda: wait.tick(lock, None))
        if self._version is not None:
            verdict = await retry_while_locked(lambda: self._read_verdict(records), lambda: wait.tick(lock, None))
            if verdict is not Verdict.BEHIND:
                return _reason(verdict)
        if await lock.try_acquire():
            return None
        if self._policy != "wait":
            return await self._when_taken(lock, records)
        before = await retry_while_locked(records.last_done, lambda: wait.tick(lock, None)) if records else None
        self.phase = "waiting"
        await lock.announce_waiting()
        while not await lock.try_acquire():
            with suppress(errors.LockNotAvailable):  # on Interlock's tables, for a moment: the next poll tries again
                records = records or await self._records(lock)
                if records and (done := await records.last_done()) != before:
                    before = done
                    if (verdict := await self._read_verdict(records)) is not Verdict.BEHIND:
                        return _reason(verdict)
                self.holder = await records.open_run() if records else None
            wait.tick(lock, self.holder)
            await asyncio.sleep(self._timing.poll * random.uniform(0.5, 1.5))
        await lock.stop_waiting()
        return None

    async def _when_taken(self, lock: LockSession, records: GateRecords | None) -> Reason:
        if self._policy == "skip":
            return "busy"
        run = await records.open_run() if records else None
        raise errors.GateBusy(
            f"The gate {lock.name} is taken{held_by(run)}: try again later, or wait with the policy 'wait'.",
            gate=str(lock.name),
        )

    async def _take_over(self, lock: LockSession) -> AsyncPassage:
        """With the lock, end the predecessor's work, check if a migration is still needed, and only then open a run."""
        holding = HeldLock(lock)
        try:
            passage = await self._checked_passage(holding)
        except errors.StoreError:
            await holding.release()
            holding.check()
            raise
        except BaseException:
            await holding.release()
            raise
        if not passage.needed:
            await holding.release()
            return passage
        self._holding = holding
        self.phase = "migrating"
        log.info("gate.acquired", extra={"gate": holding.gate, "fence": holding.fence})
        return passage

    async def _checked_passage(self, holding: HeldLock) -> AsyncPassage:
        lock = holding.lock
        if self._recorded:
            await self._prepare_tables(lock)
            session = await open_session(self._url, self._timing, session_pooler=self._session_pooler)
            holding.record_on(Progress(session, holding.gate, self._own_schema))
        progress = holding.progress
        if progress and (run := await retry_while_locked(progress.open_run, holding.check)):
            self.phase = "settling"
            await predecessor.wait_until_gone(run, progress, lock)
            await retry_while_locked(lambda: progress.abandon(run.fence, lock), holding.check)
        self.phase = "checking"
        if (
            verdict := await retry_while_locked(lambda: self._read_verdict(progress), holding.check)
        ) is not Verdict.BEHIND:
            return self._pass_without_lock(holding.gate, _reason(verdict))
        if progress:
            await retry_while_locked(lambda: self._begin(progress, lock), holding.check)
        holding.check()
        ledger = Ledger(progress, holding.check, self._run_blocking) if progress else None
        return AsyncPassage(holding.gate, "behind", holding, ledger)

    async def _begin(self, progress: Progress, lock: LockSession) -> None:
        await progress.begin(
            lock,
            version=self._version,
            compatible_since=self._compatible_since,
            migration_role=self._migration_role or lock.role,
        )

    async def _prepare_tables(self, lock: LockSession) -> None:
        status = await schema.read_status(lock.session, self._own_schema)
        if status.state in (schema.State.MISSING, schema.State.OUTDATED):
            async with await connect(self._url, application_name="interlock schema") as session:
                status = await schema.apply(session, self._own_schema)
        status.require()

    async def _records(self, lock: LockSession) -> GateRecords | None:
        """Returns the gate's recorded runs. None if the gate records none, or Interlock's tables are not current."""
        if not self._recorded:
            return None
        status = await schema.read_status(lock.session, self._own_schema)
        if status.state not in (schema.State.CURRENT, schema.State.NEWER):
            return None
        return GateRecords(lock.session, str(lock.name), self._own_schema)

    async def _read_verdict(self, records: GateRecords | None) -> Verdict:
        """Compare the recorded version first, because it shows a schema that is too new; then run the user's check."""
        verdict = await self._compare_versions(records)
        if self._check is None or verdict is Verdict.NEWER:
            return verdict or Verdict.BEHIND
        return await self._run_check()

    async def _compare_versions(self, records: GateRecords | None) -> Verdict | None:
        """Compare the recorded version with this release's. Returns None if the gate has no version or no records."""
        if self._version is None or records is None:
            return None
        version, compatible_since = await records.recorded_version()
        verdict = compare(self._version, version, compatible_since)
        if verdict is Verdict.TOO_NEW:
            raise errors.SchemaTooNew(
                f"The schema of the gate {records.gate} was migrated to version {version}, "
                f"and version {self._version} cannot work with it: start a newer release."
            )
        return verdict

    async def _run_check(self) -> Verdict:
        assert self._check is not None
        verdict = as_verdict(await call(self._check, self._run_blocking))
        if verdict is Verdict.TOO_NEW:
            raise errors.SchemaTooNew(
                f"The schema of {self._app or 'this gate'} is too new for this release: start a newer release."
            )
        return verdict

    def _pass_without_lock(self, gate: str, reason: Reason) -> AsyncPassage:
        self.phase = "passed"
        level = logging.WARNING if reason == "newer" else logging.INFO
        log.log(level, "gate.passed_by", extra={"gate": gate, "reason": reason})
        return AsyncPassage(gate, reason)


def _reason(verdict: Verdict | None) -> Reason:
    match verdict:
        case Verdict.CURRENT:
            return "current"
        case Verdict.NEWER:
            return "newer"
        case _:
            return "behind"


def _checked(url: str) -> str:
    if (kind := url.partition(":")[0].lower()) in FOR_LEASES_ALONE:
        raise errors.ConfigurationError(
            f"The gate needs PostgreSQL, and a {kind}:// database keeps only leases: use a postgresql:// URL."
        )
    return checked(url)
