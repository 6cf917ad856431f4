-- name: record
-- Nothing → recorded. See record_orchestration_v1.
SELECT interlock.record_orchestration_v1(
    CAST($1 AS text), CAST($2 AS text), CAST($3 AS text), CAST(CAST($4 AS text) AS jsonb), CAST($5 AS text), CAST($6 AS text));

-- name: cancel
-- Unfinished → to be cancelled. See cancel_orchestration_v1.
SELECT interlock.cancel_orchestration_v1(CAST($1 AS text), CAST($2 AS text));

-- name: unfinished
-- True if that orchestration, or its clean-up, has not ended.
SELECT EXISTS (SELECT FROM interlock.orchestration o
                WHERE o.id IN (CAST($1 AS text), CAST($1 AS text) || ':cleanup') AND o.finished_at IS NULL);

-- name: outcome
-- The outcome of an orchestration, if it has ended. See read_orchestration_v1.
SELECT o.outcome, o.output FROM interlock.read_orchestration_v1(CAST($1 AS text)) o;

-- name: begin
-- A new attempt at a step. See begin_attempt_v1.
SELECT attempt, begun_at FROM interlock.begin_attempt_v1($1, $2, $3, $4);

-- name: read
-- One orchestration. The engine's status counts until the record has an outcome.
SELECT o.id, o.name, o.version, o.input::text AS input, o.cleanup, o.recorded_at, o.started_at, o.cancel_requested_at,
       o.cancel_reason, o.finished_at, o.outcome, o.output, e.status, e.output AS engine_output, i.current_execution_id
  FROM interlock.orchestration o
  LEFT JOIN interlock_engine.instances i ON i.instance_id = o.id
  LEFT JOIN interlock_engine.executions e ON e.instance_id = o.id AND e.execution_id = i.current_execution_id
 WHERE o.id = $1;

-- name: list
-- The newest first: ids that begin with $1, with $2 only unfinished ones, $3 at most.
SELECT o.id, o.name, o.version, o.input::text AS input, o.cleanup, o.recorded_at, o.started_at, o.cancel_requested_at,
       o.cancel_reason, o.finished_at, o.outcome, o.output, e.status, e.output AS engine_output, i.current_execution_id
  FROM interlock.orchestration o
  LEFT JOIN interlock_engine.instances i ON i.instance_id = o.id
  LEFT JOIN interlock_engine.executions e ON e.instance_id = o.id AND e.execution_id = i.current_execution_id
 WHERE starts_with(o.id, $1) AND (o.finished_at IS NULL OR NOT $2)
 ORDER BY o.recorded_at DESC, o.id LIMIT $3;

-- name: ended
-- The orchestrations among $1 that have ended.
SELECT o.id, coalesce(o.outcome, e.status) AS status, coalesce(o.output, e.output) AS output
  FROM interlock.orchestration o
  LEFT JOIN interlock_engine.instances i ON i.instance_id = o.id
  LEFT JOIN interlock_engine.executions e ON e.instance_id = o.id AND e.execution_id = i.current_execution_id
 WHERE o.id = ANY ($1) AND (o.finished_at IS NOT NULL OR e.status IN ('Completed', 'Failed'));

-- name: history
-- The engine's history of one orchestration, in order.
SELECT h.execution_id, h.event_id, h.event_data FROM interlock_engine.history h
 WHERE h.instance_id = $1 ORDER BY h.execution_id, h.event_id;

-- name: note_started
-- Recorded → started, for all orchestrations that exist in the engine.
UPDATE interlock.orchestration o SET started_at = i.created_at
  FROM interlock_engine.instances i
 WHERE o.started_at IS NULL AND o.finished_at IS NULL AND i.instance_id = o.id;

-- name: unstarted
-- Orchestrations recorded more than $1 seconds ago that the engine does not have, neither running nor in its queue.
SELECT o.id, o.name, o.version, o.input::text AS input, o.cancel_requested_at IS NOT NULL AS cancelled
  FROM interlock.orchestration o
 WHERE o.started_at IS NULL AND o.finished_at IS NULL AND o.recorded_at < interlock.now_v1() - make_interval(secs => $1)
   AND NOT EXISTS (SELECT FROM interlock_engine.orchestrator_queue q WHERE q.instance_id = o.id)
 ORDER BY o.recorded_at LIMIT 500;

-- name: to_cancel
-- Requested cancellations that the engine has not received, or has not acted upon.
UPDATE interlock.orchestration o SET cancel_sent_at = interlock.now_v1()
 WHERE o.cancel_requested_at IS NOT NULL AND o.finished_at IS NULL AND o.started_at IS NOT NULL
   AND (o.cancel_sent_at IS NULL OR o.cancel_sent_at < interlock.now_v1() - interval '5 seconds')
RETURNING o.id, o.cancel_reason;

-- name: to_settle
-- Orchestrations that have ended in the engine, but not in the record.
SELECT o.id, e.status FROM interlock.orchestration o
  JOIN interlock_engine.instances i ON i.instance_id = o.id
  JOIN interlock_engine.executions e ON e.instance_id = o.id AND e.execution_id = i.current_execution_id
 WHERE o.finished_at IS NULL AND e.status IN ('Completed', 'Failed')
 ORDER BY o.id LIMIT 1000;

-- name: lock
-- Locks unfinished orchestrations, so that no new attempt begins.
SELECT o.id FROM interlock.orchestration o WHERE o.id = ANY ($1) AND o.finished_at IS NULL ORDER BY o.id FOR UPDATE;

-- name: settle
-- Started → finished, with the outcome in the engine.
UPDATE interlock.orchestration o
   SET finished_at = coalesce(e.completed_at, interlock.now_v1()), started_at = coalesce(o.started_at, i.created_at),
       outcome = CASE WHEN e.status = 'Completed' THEN 'completed' WHEN starts_with(e.output, 'canceled: ') THEN 'cancelled'
                      ELSE 'failed' END,
       output = e.output
  FROM interlock_engine.instances i
  JOIN interlock_engine.executions e ON e.instance_id = i.instance_id AND e.execution_id = i.current_execution_id
 WHERE o.id = ANY ($1) AND o.finished_at IS NULL AND i.instance_id = o.id AND e.status IN ('Completed', 'Failed');

-- name: cancel_unstarted
-- Recorded → cancelled, for orchestrations that the engine never received.
UPDATE interlock.orchestration o
   SET finished_at = interlock.now_v1(), outcome = 'cancelled', output = 'canceled: ' || coalesce(o.cancel_reason, '')
 WHERE o.id = ANY ($1) AND o.finished_at IS NULL AND o.started_at IS NULL;

-- name: forget_attempts
-- Makes every attempt at a step of these obsolete. Waits for open transactions that carry the fence of one.
DELETE FROM interlock.attempt a WHERE a.root = ANY ($1);

-- name: record_cleanups
-- Failed or cancelled → its clean-up is recorded.
INSERT INTO interlock.orchestration (id, name, version, input, recorded_at)
SELECT o.id || ':cleanup', o.cleanup, o.cleanup_version, o.input, interlock.now_v1()
  FROM interlock.orchestration o
 WHERE o.id = ANY ($1) AND o.outcome IN ('failed', 'cancelled') AND o.cleanup IS NOT NULL
    ON CONFLICT ON CONSTRAINT orchestration_pkey DO NOTHING;

-- name: old
-- Orchestrations that ended more than $1 seconds ago.
SELECT o.id FROM interlock.orchestration o
 WHERE o.finished_at < interlock.now_v1() - make_interval(secs => $1) ORDER BY o.finished_at LIMIT 500;

-- name: long
-- Running orchestrations that were continued as new.
SELECT i.instance_id AS id FROM interlock_engine.instances i
  JOIN interlock.orchestration o ON o.id = i.instance_id
 WHERE o.finished_at IS NULL AND i.current_execution_id > 2;

-- name: forget_old_attempts
-- Attempts of past executions that began more than a day ago → deleted, $1 at most. An endless orchestration would leave one for each
-- of its steps. The day lets a replica that was stopped in such a step still get the error that it was superseded.
DELETE FROM interlock.attempt a WHERE a.ctid = ANY (ARRAY(
    SELECT old.ctid FROM interlock.attempt old
      JOIN interlock_engine.instances i ON i.instance_id = old.orchestration
     WHERE old.execution < i.current_execution_id - 1 AND old.begun_at < interlock.now_v1() - interval '1 day'
     LIMIT $1))
RETURNING 1;

-- name: forget
-- Finished → deleted.
DELETE FROM interlock.orchestration o WHERE o.id = ANY ($1) AND o.finished_at IS NOT NULL;

-- name: clock
-- The database's time.
SELECT extract(epoch FROM interlock.now_v1())::double precision;
