-- name: note_check
-- The result of a check; a repetition changes nothing.
INSERT INTO interlock.instance_check (instance, recorded_at, healthy, milliseconds, detail)
VALUES (CAST($1 AS text), CAST($2 AS timestamptz), CAST($3 AS boolean), CAST($4 AS double precision), CAST($5 AS text))
    ON CONFLICT ON CONSTRAINT instance_check_pkey DO NOTHING
RETURNING 1;

-- name: checks
-- The newest first.
SELECT c.recorded_at, c.healthy, c.milliseconds, c.detail FROM interlock.instance_check c
 WHERE c.instance = CAST($1 AS text) ORDER BY c.recorded_at DESC LIMIT CAST($2 AS integer);

-- name: prune_checks
-- Checks older than $1 seconds → deleted, $2 at most.
DELETE FROM interlock.instance_check c WHERE (c.instance, c.recorded_at) IN (
    SELECT old.instance, old.recorded_at FROM interlock.instance_check old
     WHERE old.recorded_at < interlock.now_v1() - make_interval(secs => CAST($1 AS double precision))
     ORDER BY old.recorded_at LIMIT CAST($2 AS integer))
RETURNING 1;
