-- name: find
-- A backup by its id, or by the beginning of its id. Two rows mean that the beginning is ambiguous.
SELECT :columns FROM interlock.instance_backup t
 WHERE t.id = CAST($1 AS text) OR (length(CAST($1 AS text)) >= 8 AND starts_with(t.id, CAST($1 AS text)))
 ORDER BY t.id LIMIT 2;

-- name: acquire_slot
-- Waiting → working, while fewer than $2 backups are being worked on. Two concurrent requests may both get the last slot, which is
-- harmless, because the limit only bounds the load.
UPDATE interlock.instance_backup b
   SET begun_at = CAST($3 AS timestamptz)
 WHERE b.id = CAST($1 AS text)
   AND (b.begun_at IS NOT NULL
        OR (SELECT count(*) FROM interlock.instance_backup o WHERE o.working AND o.begun_at IS NOT NULL) < CAST($2 AS integer))
RETURNING 1;

-- name: restoring
-- The orchestration that restores this backup into an instance.
SELECT i.orchestration FROM interlock.instance i CROSS JOIN LATERAL interlock.read_orchestration_v1(i.orchestration) o
 WHERE i.working AND o.name IN ('instances.restore', 'instances.create_from') AND o.input ->> 'backup' = CAST($1 AS text)
 LIMIT 1;

-- name: making
-- A backup of that instance that is being made.
SELECT b.id, b.orchestration FROM interlock.instance_backup b
 WHERE b.instance = CAST($1 AS text) AND b.state = 'making' LIMIT 1;

-- name: paths
-- The paths of the backups of that instance, or of all, that are made.
SELECT b.id, b.path FROM interlock.instance_backup b
 WHERE b.state = 'made' AND (CAST($1 AS text) IS NULL OR b.instance = CAST($1 AS text));

-- name: prunable
-- Backups of that instance, or of all, that are made and not among the newest $2, or older than $3 days. Never the newest one, and
-- none that is being worked on, restored from, or locked by another transaction. Backups with the ids $4 are ignored.
WITH ranked AS (
    SELECT r.id, row_number() OVER (PARTITION BY r.instance ORDER BY r.created_at DESC, r.id DESC) AS place
      FROM interlock.instance_backup r
     WHERE r.state = 'made' AND (CAST($1 AS text) IS NULL OR r.instance = CAST($1 AS text))
       AND r.id <> ALL (CAST($4 AS text[]))
)
SELECT b.id FROM interlock.instance_backup b JOIN ranked ON ranked.id = b.id
 WHERE b.state = 'made' AND NOT b.working
   AND ((CAST($2 AS integer) > 0 AND ranked.place > CAST($2 AS integer))
        OR (CAST($3 AS double precision) > 0 AND ranked.place > 1
            AND b.created_at < interlock.now_v1() - make_interval(secs => 86400 * CAST($3 AS double precision))))
   AND NOT EXISTS (SELECT FROM interlock.instance i CROSS JOIN LATERAL interlock.read_orchestration_v1(i.orchestration) o
                    WHERE i.working AND o.name IN ('instances.restore', 'instances.create_from') AND o.input ->> 'backup' = b.id)
 ORDER BY b.id
   FOR NO KEY UPDATE OF b SKIP LOCKED;
