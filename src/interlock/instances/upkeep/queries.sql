-- name: unwatched
-- Running instances without a watcher: the orchestration that the record names has ended, or has no record.
SELECT i.id, i.watcher FROM interlock.instance i
 WHERE i.state = 'running'
   AND NOT EXISTS (SELECT FROM interlock.read_orchestration_v1(i.watcher) o WHERE o.finished_at IS NULL)
 ORDER BY i.id LIMIT CAST($1 AS integer);

-- name: rewatch
-- Watcher that has ended → new watcher. A watcher is named in the transaction that records it, and never runs again after it has
-- ended. So it is enough to check that the record still names the watcher that was found missing.
UPDATE interlock.instance i SET watcher = CAST($3 AS text), updated_at = interlock.now_v1(), revision = revision + 1
 WHERE i.id = CAST($1 AS text) AND i.state = 'running' AND i.watcher IS NOT DISTINCT FROM CAST($2 AS text)
RETURNING i.updated_at;

-- name: records
-- Instances of driver $1 that hold their names, and the instances with the ids $2.
SELECT :columns
  FROM interlock.instance t
 WHERE (t.driver = CAST($1 AS text) AND t.names_freed_at IS NULL) OR t.id = ANY (CAST($2 AS text[]));

-- name: open
-- The open findings of a driver.
SELECT :findings FROM interlock.instance_drift d WHERE d.driver = CAST($1 AS text) AND d.closed_at IS NULL ORDER BY d.id;

-- name: repairable
-- Open findings of these drivers that may be repaired without an operator: not vanished instances, nor orphans without a record.
-- A repair is repeated when the finding is twice as old as at the last attempt, or after a day. Untried and oldest attempts first.
SELECT :findings FROM interlock.instance_drift d LEFT JOIN LATERAL interlock.read_orchestration_v1(d.repair) o ON true
 WHERE d.closed_at IS NULL AND d.driver = ANY (CAST($1 AS text[]))
   AND (d.kind IN ('wrong_state', 'dns')
        OR (d.kind = 'orphan' AND EXISTS (SELECT FROM interlock.instance i WHERE i.id = d.instance)))
   AND (o.recorded_at IS NULL OR (o.finished_at IS NOT NULL
        AND interlock.now_v1() >= o.recorded_at + least(o.recorded_at - d.found_at, interval '1 day')))
 ORDER BY o.recorded_at NULLS FIRST, d.id;

-- name: page
-- The newest $2 findings first; with $1 closed ones too.
SELECT :findings FROM interlock.instance_drift d
 WHERE CAST($1 AS boolean) OR d.closed_at IS NULL
 ORDER BY d.id DESC LIMIT CAST($2 AS integer);

-- name: lock
-- One finding; no other transaction starts a repair of it until this one ends.
SELECT :findings FROM interlock.instance_drift d WHERE d.id = CAST($1 AS bigint) FOR UPDATE;

-- name: open_one
-- Nothing → open.
INSERT INTO interlock.instance_drift (driver, instance, kind, name, detail, found_at)
VALUES (CAST($1 AS text), CAST($2 AS text), CAST($3 AS text), CAST($4 AS text), CAST($5 AS text), CAST($6 AS timestamptz))
RETURNING 1;

-- name: describe
-- The detail of an open finding has changed.
UPDATE interlock.instance_drift d SET detail = CAST($2 AS text) WHERE d.id = CAST($1 AS bigint) RETURNING 1;

-- name: close
-- Open → closed.
UPDATE interlock.instance_drift d SET closed_at = CAST($2 AS timestamptz)
 WHERE d.id = CAST($1 AS bigint) AND d.closed_at IS NULL RETURNING 1;

-- name: note_repair
-- The orchestration that repairs a finding.
UPDATE interlock.instance_drift d SET repair = CAST($2 AS text) WHERE d.id = CAST($1 AS bigint) RETURNING 1;

-- name: note_look
-- The last check of a driver.
INSERT INTO interlock.instance_look (driver, looked_at, trouble)
VALUES (CAST($1 AS text), CAST($2 AS timestamptz), CAST($3 AS text))
    ON CONFLICT ON CONSTRAINT instance_look_pkey
    DO UPDATE SET looked_at = excluded.looked_at, trouble = excluded.trouble
RETURNING 1;

-- name: looks
-- The last check of each driver.
SELECT l.driver, l.looked_at, l.trouble FROM interlock.instance_look l ORDER BY l.driver;

-- name: prune
-- Findings closed more than $1 seconds ago → deleted, $2 at most.
DELETE FROM interlock.instance_drift d WHERE d.id IN (
    SELECT old.id FROM interlock.instance_drift old
     WHERE old.closed_at < interlock.now_v1() - make_interval(secs => CAST($1 AS double precision))
     ORDER BY old.closed_at LIMIT CAST($2 AS integer))
RETURNING 1;
