-- name: abandon_run
-- A dead predecessor's migrating → abandoned, once nothing of it is left. Only while this process's session has the lock.
UPDATE interlock.gate_run
   SET ended_at = clock_timestamp(), outcome = 'abandoned'
 WHERE gate = $1 AND fence = $2 AND ended_at IS NULL
   AND EXISTS (SELECT FROM pg_locks l
                WHERE l.pid = $3 AND l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
                  AND l.classid::bigint = ($4::integer::bigint & 4294967295)
                  AND l.objid::bigint = ($5::integer::bigint & 4294967295));

-- name: begin_run
-- No open run → migrating. Only while this process's session has the lock; no row otherwise. Times are those of the real
-- clock, because they are compared with those of pg_stat_activity.
WITH begun AS (
    INSERT INTO interlock.gate_run
           (gate, fence, replica, host, version, compatible_since, ttl, lock_pid, migration_role, bystanders,
            started_at, heartbeat_at)
    SELECT $1, coalesce(max(fence), 0) + 1, $2, $3, $4, $5, $6::interval, $7, $8::oid,
           (SELECT coalesce(jsonb_agg(jsonb_build_object('pid', pid, 'since', backend_start)), '[]')
              FROM pg_stat_activity WHERE usesysid = $8::oid AND datname = current_database()),
           clock_timestamp(), clock_timestamp()
      FROM interlock.gate_run
     WHERE gate = $1
    HAVING EXISTS (SELECT FROM pg_locks l
                    WHERE l.pid = $7 AND l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
                      AND l.classid::bigint = ($9::integer::bigint & 4294967295)
                      AND l.objid::bigint = ($10::integer::bigint & 4294967295))
    RETURNING gate, fence
), witnessed AS (
    INSERT INTO interlock.gate_witness (gate, fence, server_started_at)
    SELECT gate, fence, pg_postmaster_start_time() FROM begun
    ON CONFLICT ON CONSTRAINT gate_witness_pkey
    DO UPDATE SET fence = excluded.fence, server_started_at = excluded.server_started_at
)
SELECT fence FROM begun;

-- name: heartbeat
-- Migrating → migrating. Skips a row that another session has locked: a heartbeat never waits.
UPDATE interlock.gate_run
   SET heartbeat_at = clock_timestamp()
 WHERE (gate, fence) = (
       SELECT gate, fence FROM interlock.gate_run
        WHERE gate = $1 AND fence = $2 AND ended_at IS NULL
          FOR UPDATE SKIP LOCKED);

-- name: report_step
-- Migrating → migrating, at another step. Skips a locked row as well: the report is not worth a wait.
UPDATE interlock.gate_run
   SET step = $3, step_started_at = clock_timestamp(), heartbeat_at = clock_timestamp()
 WHERE (gate, fence) = (
       SELECT gate, fence FROM interlock.gate_run
        WHERE gate = $1 AND fence = $2 AND ended_at IS NULL
          FOR UPDATE SKIP LOCKED);

-- name: protect_session
-- Migrating → migrating, with one more session that has to be gone before a successor starts.
UPDATE interlock.gate_run
   SET protected = protected || (
       SELECT coalesce(jsonb_agg(jsonb_build_object('pid', pid, 'since', backend_start)), '[]')
         FROM pg_stat_activity WHERE pid = $3)
 WHERE gate = $1 AND fence = $2 AND ended_at IS NULL;

-- name: end_run
-- Migrating → ended.
UPDATE interlock.gate_run
   SET ended_at = clock_timestamp(), outcome = $3, error = $4
 WHERE gate = $1 AND fence = $2 AND ended_at IS NULL;

-- name: open_run
-- The run that has begun and not ended, if there is one.
SELECT fence, replica, host, version, step,
       extract(epoch FROM ttl)::float8 AS ttl,
       extract(epoch FROM clock_timestamp() - started_at)::float8 AS running_for,
       heartbeat_at < clock_timestamp() - interval '1 hour' AS is_old,
       NOT EXISTS (SELECT FROM interlock.gate_witness w
                    WHERE w.gate = r.gate AND w.fence = r.fence
                      AND w.server_started_at = pg_postmaster_start_time()) AS cut_by_server
  FROM interlock.gate_run r
 WHERE gate = $1 AND ended_at IS NULL;

-- name: last_done
-- The newest run that succeeded. A change of it tells waiters to check again.
SELECT max(fence)
  FROM interlock.gate_run
 WHERE gate = $1 AND outcome = 'done';

-- name: recorded_version
-- The last version that a run has recorded.
SELECT version, compatible_since
  FROM interlock.gate_run
 WHERE gate = $1 AND outcome = 'done' AND version IS NOT NULL
 ORDER BY fence DESC
 LIMIT 1;

-- name: leftovers
-- Sessions that may belong to an open run: those it has registered, and those of its role. Not bystanders, sessions at a
-- gate, sessions that began after $5, or, if $6, long after its last heartbeat. A session whose start is hidden counts,
-- and so does one that began in the future: the clock was set back.
SELECT a.pid, a.usename AS role, a.application_name, a.client_addr::text AS address, a.state
  FROM interlock.gate_run r
  JOIN pg_stat_activity a ON a.pid <> pg_backend_pid() AND coalesce(a.backend_type, 'client backend') = 'client backend'
 WHERE r.gate = $1 AND r.fence = $2 AND r.ended_at IS NULL
   AND (EXISTS (SELECT FROM jsonb_array_elements(r.protected) s
                 WHERE (s->>'pid')::integer = a.pid
                   AND (s->>'since')::timestamptz IS NOT DISTINCT FROM a.backend_start)
        OR a.usesysid = r.migration_role AND a.datname = current_database()
           AND NOT EXISTS (SELECT FROM jsonb_array_elements(r.bystanders) s
                            WHERE (s->>'pid')::integer = a.pid
                              AND (s->>'since')::timestamptz IS NOT DISTINCT FROM a.backend_start)
           AND (coalesce(a.backend_start <= $5::timestamptz
                         AND (NOT $6::boolean OR a.backend_start <= r.heartbeat_at + 2 * r.ttl), true)
                OR a.backend_start > clock_timestamp()))
   AND NOT EXISTS (
       SELECT FROM pg_locks l
        WHERE l.pid = a.pid AND l.locktype = 'advisory' AND l.granted
          AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND l.classid::bigint = ($3::integer::bigint & 4294967295)
          AND l.objid::bigint = ($4::integer::bigint & 4294967295)
          AND l.objsubid = 2)
 ORDER BY a.pid;

-- name: end_session
-- A leftover session → asked to end. Only while this process's session has the lock; no row otherwise.
SELECT pg_terminate_backend($1)
 WHERE EXISTS (SELECT FROM pg_locks l
                WHERE l.pid = $2 AND l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
                  AND l.classid::bigint = ($3::integer::bigint & 4294967295)
                  AND l.objid::bigint = ($4::integer::bigint & 4294967295));

-- name: all_gates
-- Every gate that was ever used here, with its newest run.
SELECT DISTINCT ON (gate)
       gate, fence, replica, host, version, lock_pid, step, step_started_at, started_at, heartbeat_at, ended_at,
       outcome, error
  FROM interlock.gate_run
 ORDER BY gate, fence DESC;

-- name: begin_step
-- Unknown step → begun. No row: it was begun before.
INSERT INTO interlock.gate_step (gate, step, fence, replica, started_at)
VALUES ($1, $2, $3, $4, interlock.now_v1())
ON CONFLICT ON CONSTRAINT gate_step_pkey DO NOTHING
RETURNING step;

-- name: read_step
-- One step, as it was last recorded.
SELECT step, fence, replica, started_at, finished_at, result::text AS result, error
  FROM interlock.gate_step
 WHERE gate = $1 AND step = $2;

-- name: finish_step
-- Begun by this run → finished.
UPDATE interlock.gate_step
   SET finished_at = interlock.now_v1(), result = $4::jsonb, error = NULL
 WHERE gate = $1 AND step = $2 AND fence = $3 AND finished_at IS NULL;

-- name: fail_step
-- Begun by this run → begun, with the error that stopped it.
UPDATE interlock.gate_step
   SET error = $4
 WHERE gate = $1 AND step = $2 AND fence = $3 AND finished_at IS NULL;

-- name: all_steps
-- All steps of one gate.
SELECT step, fence, replica, started_at, finished_at, error
  FROM interlock.gate_step
 WHERE gate = $1
 ORDER BY started_at, step;

-- name: settle_step_done
-- Half done → finished, by an operator's decision.
UPDATE interlock.gate_step
   SET finished_at = interlock.now_v1()
 WHERE gate = $1 AND step = $2 AND finished_at IS NULL
RETURNING step;

-- name: settle_step_again
-- Half done → unknown, by an operator's decision that it may run again.
DELETE FROM interlock.gate_step
 WHERE gate = $1 AND step = $2 AND finished_at IS NULL
RETURNING step;

-- name: record_intervention
-- An operator's intervention, with its reason.
INSERT INTO interlock.gate_intervention (gate, action, subject, reason, done_by, done_at)
VALUES ($1, $2, $3, $4, $5, interlock.now_v1());
