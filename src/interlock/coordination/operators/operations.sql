-- name: leases
-- Leases by the prefix of their name; $2: only held ones, $3: only those with waiters.
SELECT name, token, held, broken, holder, host, pid, metadata, ttl, acquired_at, renewed_at, expires_at, remaining,
       waiters, interlock.now_v1() AS seen_at
  FROM interlock.leases_v1()
 WHERE starts_with(name, $1) AND (held OR NOT $2) AND (waiters > 0 OR NOT $3);

-- name: lease
-- One lease.
SELECT name, token, held, broken, holder, host, pid, metadata, ttl, acquired_at, renewed_at, expires_at, remaining,
       waiters, interlock.now_v1() AS seen_at
  FROM interlock.leases_v1($1);

-- name: waiters
-- The waiters of one lease, in order.
SELECT holder, host, pid, enqueued_at, waited FROM interlock.waiters_v1($1);

-- name: waits
-- Every waiter, with the holder of the lease that it waits for.
SELECT l.name, l.held, l.holder, l.host, l.pid, w.holder AS waiter, w.host AS waiter_host, w.pid AS waiter_pid, w.waited
  FROM interlock.leases_v1() AS l, LATERAL interlock.waiters_v1(l.name) AS w
 WHERE l.waiters > 0
 ORDER BY l.name, w.enqueued_at;

-- name: guards
-- The sessions whose open transactions guard one lease. The server may hide all but the role of other roles' sessions.
SELECT g.pid, a.usename AS role, a.application_name AS application, a.state, a.xact_start AS began_at,
       extract(epoch FROM clock_timestamp() - a.xact_start)::double precision AS open_for
  FROM interlock.guards_v1($1) AS g LEFT JOIN pg_stat_activity a ON a.pid = g.pid
 ORDER BY a.xact_start, g.pid;

-- name: may_read_interventions
-- True if this role may read who broke leases.
SELECT has_table_privilege('interlock.lease_intervention', 'SELECT');

-- name: intervention
-- The most recent break of one lease.
SELECT token, immediate, terminated, reason, done_by, done_at
  FROM interlock.lease_intervention WHERE name = $1 ORDER BY id DESC LIMIT 1;

-- name: break
-- Held → broken, with a row that names the operator.
SELECT token, holder, host, pid, remaining, terminated
  FROM interlock.break_v1($1, $2, $3, $4, session_user || '/' || $5);

-- name: may_break
-- True if this role may call break_v1, so that a refused break has another cause.
SELECT has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE')
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
 WHERE n.nspname = $1 AND p.proname = 'break_v1';

-- name: is_current
-- Raises an error if that grant does not hold the lease.
SELECT interlock.guard_v1($1, $2, $3);
