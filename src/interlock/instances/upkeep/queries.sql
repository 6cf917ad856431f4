-- name: unwatched
-- Running instances without a watcher: the orchestration that the record names has ended, or is not known.
SELECT i.id, i.watcher FROM interlock.instance i
 WHERE i.state = 'running'
   AND NOT EXISTS (SELECT FROM interlock.read_orchestration_v1(i.watcher) o WHERE o.finished_at IS NULL)
 ORDER BY i.id LIMIT CAST($1 AS integer);

-- name: rewatch
-- Watched by one that has ended → watched by this one. Whoever names a watcher records it in the same transaction, and none that
-- has ended goes on: so it is enough that the record still names the one that was found missing.
UPDATE interlock.instance i SET watcher = CAST($3 AS text), updated_at = interlock.now_v1(), revision = revision + 1
 WHERE i.id = CAST($1 AS text) AND i.state = 'running' AND i.watcher IS NOT DISTINCT FROM CAST($2 AS text)
RETURNING i.updated_at;

-- name: records
-- Of that driver's instances those that hold their names, and these.
SELECT :columns
  FROM interlock.instance t
 WHERE (t.driver = CAST($1 AS text) AND t.names_freed_at IS NULL) OR t.id = ANY (CAST($2 AS text[]));

-- name: open
-- What is known to have drifted, of a driver.
SELECT :findings FROM interlock.instance_drift d WHERE d.driver = CAST($1 AS text) AND d.closed_at IS NULL ORDER BY d.id;

-- name: repairable
-- What has drifted, of these drivers, and may be put right without asking anybody: not what vanished, nor what no record knows.
-- Each is tried again when it is twice as old as at the last try, or after a day; what was never tried, or longest ago, first.
SELECT :findings FROM interlock.instance_drift d LEFT JOIN LATERAL interlock.read_orchestration_v1(d.repair) o ON true
 WHERE d.closed_at IS NULL AND d.driver = ANY (CAST($1 AS text[]))
   AND (d.kind IN ('wrong_state', 'dns')
        OR (d.kind = 'orphan' AND EXISTS (SELECT FROM interlock.instance i WHERE i.id = d.instance)))
   AND (o.recorded_at IS NULL OR (o.finished_at IS NOT NULL
        AND interlock.now_v1() >= o.recorded_at + least(o.recorded_at - d.found_at, interval '1 day')))
 ORDER BY o.recorded_at NULLS FIRST, d.id;

-- name: page
-- The newest first: also closed ones or not, so many.
SELECT :findings FROM interlock.instance_drift d
 WHERE CAST($1 AS boolean) OR d.closed_at IS NULL
 ORDER BY d.id DESC LIMIT CAST($2 AS integer);

-- name: lock
-- One, and nobody else has it repaired until the transaction ends.
SELECT :findings FROM interlock.instance_drift d WHERE d.id = CAST($1 AS bigint) FOR UPDATE;

-- name: open_one
-- Nothing → open.
INSERT INTO interlock.instance_drift (driver, instance, kind, name, detail, found_at)
VALUES (CAST($1 AS text), CAST($2 AS text), CAST($3 AS text), CAST($4 AS text), CAST($5 AS text), CAST($6 AS timestamptz))
RETURNING 1;

-- name: describe
-- Open, and seen to be otherwise than it was described.
UPDATE interlock.instance_drift d SET detail = CAST($2 AS text) WHERE d.id = CAST($1 AS bigint) RETURNING 1;

-- name: close
-- Open → closed.
UPDATE interlock.instance_drift d SET closed_at = CAST($2 AS timestamptz)
 WHERE d.id = CAST($1 AS bigint) AND d.closed_at IS NULL RETURNING 1;

-- name: note_repair
-- Asked to be put right by that orchestration.
UPDATE interlock.instance_drift d SET repair = CAST($2 AS text) WHERE d.id = CAST($1 AS bigint) RETURNING 1;

-- name: note_look
-- A driver was looked at.
INSERT INTO interlock.instance_look (driver, looked_at, trouble)
VALUES (CAST($1 AS text), CAST($2 AS timestamptz), CAST($3 AS text))
    ON CONFLICT ON CONSTRAINT instance_look_pkey
    DO UPDATE SET looked_at = excluded.looked_at, trouble = excluded.trouble
RETURNING 1;

-- name: looks
-- When each driver was.
SELECT l.driver, l.looked_at, l.trouble FROM interlock.instance_look l ORDER BY l.driver;

-- name: prune
-- Closed longer ago than so many seconds → gone, so many at most.
DELETE FROM interlock.instance_drift d WHERE d.id IN (
    SELECT old.id FROM interlock.instance_drift old
     WHERE old.closed_at < interlock.now_v1() - make_interval(secs => CAST($1 AS double precision))
     ORDER BY old.closed_at LIMIT CAST($2 AS integer))
RETURNING 1;
