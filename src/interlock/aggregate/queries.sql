-- name: read
-- One record.
SELECT :columns FROM :table t WHERE t.id = CAST($1 AS text);

-- name: lock
-- One record; no other transaction writes it until this one ends.
SELECT :columns FROM :table t WHERE t.id = CAST($1 AS text) FOR NO KEY UPDATE;

-- name: note
-- An event, once for its kind and its recorded time.
INSERT INTO interlock.event (subject_kind, subject, recorded_at, kind, detail, actor, orchestration)
VALUES (CAST($1 AS text), CAST($2 AS text), CAST($3 AS timestamptz), CAST($4 AS text), CAST($5 AS text), CAST($6 AS text),
        CAST($7 AS text))
    ON CONFLICT ON CONSTRAINT event_pkey DO NOTHING
RETURNING 1;

-- name: events
-- The newest first; with a time and a kind, only the events that follow that one.
SELECT e.kind, e.recorded_at, e.detail, e.actor, e.orchestration FROM interlock.event e
 WHERE e.subject_kind = CAST($1 AS text) AND e.subject = CAST($2 AS text)
   AND (CAST($4 AS timestamptz) IS NULL OR (e.recorded_at, e.kind) < (CAST($4 AS timestamptz), CAST($5 AS text)))
 ORDER BY e.recorded_at DESC, e.kind DESC LIMIT CAST($3 AS integer);

-- name: event
-- The detail of one event.
SELECT e.detail FROM interlock.event e
 WHERE e.subject_kind = CAST($1 AS text) AND e.subject = CAST($2 AS text) AND e.recorded_at = CAST($3 AS timestamptz)
   AND e.kind = CAST($4 AS text);

-- name: forget_event
-- One event → deleted, if there is one.
DELETE FROM interlock.event e
 WHERE e.subject_kind = CAST($1 AS text) AND e.subject = CAST($2 AS text) AND e.recorded_at = CAST($3 AS timestamptz)
   AND e.kind = CAST($4 AS text)
RETURNING 1;

-- name: prune_events
-- Events of all kinds of records older than $1 seconds → deleted, $2 at most.
DELETE FROM interlock.event e WHERE (e.subject_kind, e.subject, e.recorded_at, e.kind) IN (
    SELECT old.subject_kind, old.subject, old.recorded_at, old.kind FROM interlock.event old
     WHERE old.recorded_at < interlock.now_v1() - make_interval(secs => CAST($1 AS double precision))
     ORDER BY old.recorded_at LIMIT CAST($2 AS integer))
RETURNING 1;

-- name: clock
-- The database's time, which all records use.
SELECT interlock.now_v1();
