-- name: leases
-- Every lease whose name begins like that: all, only those held, only those that somebody waits for.
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
-- Who waits for it, in order.
SELECT holder, host, pid, enqueued_at, waited FROM interlock.waiters_v1($1);

-- name: waits
-- Everybody who waits, with whoever holds what it waits for.
SELECT l.name, l.held, l.holder, l.host, l.pid, w.holder AS waiter, w.host AS waiter_host, w.pid AS waiter_pid, w.waited
  FROM interlock.leases_v1() AS l, LATERAL interlock.waiters_v1(l.name) AS w
 WHERE l.waiters > 0
 ORDER BY l.name, w.enqueued_at;

-- name: guards
-- The sessions whose open transactions guard it; of other roles' sessions the server may keep everything but the role back.
SELECT g.pid, a.usename AS role, a.application_name AS application, a.state, a.xact_start AS began_at,
       extract(epoch FROM clock_timestamp() - a.xact_start)::double precision AS open_for
  FROM interlock.guards_v1($1) AS g LEFT JOIN pg_stat_activity a ON a.pid = g.pid
 ORDER BY a.xact_start, g.pid;

-- name: may_read_interventions
-- Whether we may know who broke leases.
SELECT has_table_privilege('interlock.lease_intervention', 'SELECT');

-- name: intervention
-- The last time that somebody took it from its holder.
SELECT token, immediate, terminated, reason, done_by, done_at
  FROM interlock.lease_intervention WHERE name = $1 ORDER BY id DESC LIMIT 1;

-- name: break
-- Take it from its holder, and leave a row that says who did.
SELECT token, holder, host, pid, remaining, terminated
  FROM interlock.break_v1($1, $2, $3, $4, session_user || '/' || $5);

-- name: may_break
-- Whether it is for want of a grant that we may not do that.
SELECT has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE')
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
 WHERE n.nspname = $1 AND p.proname = 'break_v1';

-- name: is_current
-- Refused if that grant does not hold the lease.
SELECT interlock.guard_v1($1, $2, $3);
