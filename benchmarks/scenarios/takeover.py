"""The time from the SIGKILL of a holder to the next grant."""

from statistics import median

from psycopg import sql

from benchmarks.bench import Bench, Contender
from benchmarks.report.section import Section, Verdict
from benchmarks.servers.postgres import execute
from benchmarks.waiting import wait_until

TTL = 2.0
CONTENDER = Contender("interlock_holder", lambda bench: bench.database)
LEASE, SESSION = "lease", "session lock"
_WAITING = {
    LEASE: "SELECT count(*) > 0 FROM interlock.waiter WHERE name = 'taken over'",
    SESSION: "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted",
}
_EXPIRY = "SELECT extract(epoch FROM expires_at)::float8 FROM interlock.lease WHERE name = 'taken over'"

Figures = dict[str, list[float]]


def measure(bench: Bench) -> Figures:
    """Milliseconds: for a lease after the end of its TTL, for a session lock after the kill."""
    bench.log("take-over: killed holders")
    return {kind: [_take_over(bench, kind) for _ in range(bench.size.repeats)] for kind in (LEASE, SESSION)}


def _take_over(bench: Bench, kind: str) -> float:
    settings = {"name": "taken over", "ttl": TTL if kind == LEASE else None}
    with bench.loads(CONTENDER, count=2, **settings) as [holder, waiter]:
        holder.ask()
        waiter.send()
        wait_until(lambda: bool(execute(bench.database, sql.SQL(_WAITING[kind]))[0][0]), what="a second in the queue")
        killed_at = holder.kill()
        if kind == SESSION:
            return float(waiter.answer()["at"] - killed_at) * 1e3
        [[expires_at]] = execute(bench.database, sql.SQL(_EXPIRY))
        return float(waiter.answer()["wall"] - expires_at) * 1e3


def judge(figures: Figures) -> Section:
    return Section(
        title="After a SIGKILL of the holder",
        text=(
            f"Milliseconds until the next waiter has the lock: for a lease (TTL {TTL:g} s) counted from the end of the "
            "TTL, for a session lock counted from the kill."
        ),
        header=("", "p50", "worst", "repeats"),
        rows=[(kind, f"{median(ms):.1f} ms", f"{max(ms):.1f} ms", str(len(ms))) for kind, ms in figures.items()],
        verdicts=[
            Verdict("killed lease holder: grant after the TTL's end, worst", max(figures[LEASE]), 100, "ms", False, 0),
            Verdict("killed session-lock holder: next grant, worst", max(figures[SESSION]), 50, "ms", False, 0),
        ],
    )
