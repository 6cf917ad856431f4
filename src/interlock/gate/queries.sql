-- name: abandon_open_run
-- A dead predecessor's migrating → abandoned. By the lock's holder only, once nothing of the predecessor is left.
UPDATE interlock.gate_run
   SET ended_at = clock_timestamp(), outcome = 'abandoned'
 WHERE gate = $1 AND ended_at IS NULL;

-- name: begin_run
-- Nobody migrating → us migrating. By the lock's holder only. Times are those of the real clock, because they are
-- compared with pg_stat_activity's.
INSERT INTO interlock.gate_run
       (gate, fence, replica, host, version, compatible_since, ttl, lock_pid, migration_role, bystanders,
        started_at, heartbeat_at)
SELECT $1, coalesce(max(fence), 0) + 1, $2, $3, $4, $5, $6::interval, $7, $8::oid,
       (SELECT coalesce(jsonb_agg(jsonb_build_object('pid', pid, 'since', backend_start)), '[]')
          FROM pg_stat_activity WHERE usesysid = $8::oid AND datname = current_database()),
       clock_timestamp(), clock_timestamp()
  FROM interlock.gate_run
 WHERE gate = $1
RETURNING fence;

-- name: heartbeat
-- Still migrating. Skips a row that somebody has locked: a heartbeat never waits.
UPDATE interlock.gate_run
   SET heartbeat_at = clock_timestamp()
 WHERE (gate, fence) = (
       SELECT gate, fence FROM interlock.gate_run
        WHERE gate = $1 AND fence = $2 AND ended_at IS NULL
          FOR UPDATE SKIP LOCKED);

-- name: report_step
-- Migrating → migrating, at another step. Skips a locked row as well: what it tells is not worth waiting for.
UPDATE interlock.gate_run
   SET step = $3, step_started_at = clock_timestamp(), heartbeat_at = clock_timestamp()
 WHERE (gate, fence) = (
       SELECT gate, fence FROM interlock.gate_run
        WHERE gate = $1 AND fence = $2 AND ended_at IS NULL
          FOR UPDATE SKIP LOCKED);

-- name: protect_session
-- Migrating → migrating, with one more session that a successor has to see gone.
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
       pg_postmaster_start_time() BETWEEN heartbeat_at AND heartbeat_at + ttl AS cut_by_restart
  FROM interlock.gate_run
 WHERE gate = $1 AND ended_at IS NULL;

-- name: last_done
-- The newest run that went through, by which waiters see that there is something to check again.
SELECT max(fence)
  FROM interlock.gate_run
 WHERE gate = $1 AND outcome = 'done';

-- name: recorded_version
-- What the schema was last migrated to, as far as runs have said.
SELECT version, compatible_since
  FROM interlock.gate_run
 WHERE gate = $1 AND outcome = 'done' AND version IS NOT NULL
 ORDER BY fence DESC
 LIMIT 1;

-- name: leftovers
-- Sessions that may belong to the open run: those it named, and those of its role, except bystanders, sessions at a
-- gate, and sessions that began later than $4 after its last heartbeat. What is hidden from us counts.
SELECT a.pid, a.usename AS role, a.application_name, a.client_addr::text AS address, a.state
  FROM interlock.gate_run r
  JOIN pg_stat_activity a ON a.pid <> pg_backend_pid()
 WHERE r.gate = $1 AND r.ended_at IS NULL
   AND (EXISTS (SELECT FROM jsonb_array_elements(r.protected) s
                 WHERE (s->>'pid')::integer = a.pid
                   AND (s->>'since')::timestamptz IS NOT DISTINCT FROM a.backend_start)
        OR a.usesysid = r.migration_role AND a.datname = current_database()
           AND NOT EXISTS (SELECT FROM jsonb_array_elements(r.bystanders) s
                            WHERE (s->>'pid')::integer = a.pid
                              AND (s->>'since')::timestamptz IS NOT DISTINCT FROM a.backend_start)
           AND coalesce(a.backend_start <= r.heartbeat_at + $4::interval, true))
   AND NOT EXISTS (
       SELECT FROM pg_locks l
        WHERE l.pid = a.pid AND l.locktype = 'advisory' AND l.granted
          AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
          AND l.classid::bigint = ($2::bigint & 4294967295) AND l.objid::bigint = ($3::bigint & 4294967295)
          AND l.objsubid = 2)
 ORDER BY a.pid;

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
-- A step as it was left.
SELECT step, fence, replica, started_at, finished_at, result::text AS result, error
  FROM interlock.gate_step
 WHERE gate = $1 AND step = $2;

-- name: finish_step
-- Begun by us → finished.
UPDATE interlock.gate_step
   SET finished_at = interlock.now_v1(), result = $4::jsonb, error = NULL
 WHERE gate = $1 AND step = $2 AND fence = $3 AND finished_at IS NULL;

-- name: fail_step
-- Begun by us → begun, with the error that stopped it.
UPDATE interlock.gate_step
   SET error = $4
 WHERE gate = $1 AND step = $2 AND fence = $3 AND finished_at IS NULL;

-- name: all_steps
-- The ledger of one gate.
SELECT step, fence, replica, started_at, finished_at, error
  FROM interlock.gate_step
 WHERE gate = $1
 ORDER BY started_at, step;

-- name: settle_step_done
-- Half done → finished, because a person says so.
UPDATE interlock.gate_step
   SET finished_at = interlock.now_v1()
 WHERE gate = $1 AND step = $2 AND finished_at IS NULL
RETURNING step;

-- name: settle_step_again
-- Half done → unknown, because a person says that it may run again.
DELETE FROM interlock.gate_step
 WHERE gate = $1 AND step = $2 AND finished_at IS NULL
RETURNING step;

-- name: record_intervention
-- Who did what by hand, and why.
INSERT INTO interlock.gate_intervention (gate, action, subject, reason, done_by, done_at)
VALUES ($1, $2, $3, $4, $5, interlock.now_v1());
