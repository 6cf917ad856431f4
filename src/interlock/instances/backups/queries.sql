-- name: insert
-- Nothing → making.
INSERT INTO interlock.instance_backup (id, instance, instance_name, format, orchestration, created_at, updated_at)
VALUES (CAST($1 AS text), CAST($2 AS text), CAST($3 AS text), CAST($4 AS text), CAST($5 AS text), interlock.now_v1(),
        interlock.now_v1())
RETURNING created_at;

-- name: read
-- One, as it is.
SELECT :columns FROM interlock.instance_backup b WHERE b.id = CAST($1 AS text);

-- name: lock
-- The same; nobody else writes it until the transaction ends.
SELECT :columns FROM interlock.instance_backup b WHERE b.id = CAST($1 AS text) FOR NO KEY UPDATE;

-- name: find
-- By its id, or by how that begins: two rows are one too many.
SELECT :columns FROM interlock.instance_backup b
 WHERE b.id = CAST($1 AS text) OR (length(CAST($1 AS text)) >= 8 AND starts_with(b.id, CAST($1 AS text)))
 ORDER BY b.id LIMIT 2;

-- name: list
-- The newest first: of that instance, by id or name, or of all; in these states; also deleted ones or not; before that one.
SELECT :columns FROM interlock.instance_backup b
 WHERE (CAST($1 AS text) IS NULL OR b.instance = CAST($1 AS text) OR b.instance_name = CAST($1 AS text))
   AND (CAST($2 AS text[]) IS NULL OR b.state = ANY (CAST($2 AS text[])))
   AND (CAST($3 AS boolean) OR b.deleted_at IS NULL)
   AND (CAST($4 AS text) IS NULL
        OR (b.created_at, b.id) < (SELECT o.created_at, o.id FROM interlock.instance_backup o WHERE o.id = CAST($4 AS text)))
 ORDER BY b.created_at DESC, b.id DESC LIMIT CAST($5 AS integer);

-- name: hand_over
-- Worked on by nobody, or by another → by this orchestration.
UPDATE interlock.instance_backup b
   SET orchestration = CAST($2 AS text), working = true, begun_at = NULL, error = NULL, error_code = NULL,
       updated_at = interlock.now_v1()
 WHERE b.id = CAST($1 AS text)
RETURNING b.updated_at;

-- name: take_turn
-- Waiting → at work, while fewer than so many are. Two that ask at once may both be let in: it is a matter of load.
UPDATE interlock.instance_backup b
   SET begun_at = CAST($3 AS timestamptz)
 WHERE b.id = CAST($1 AS text)
   AND (b.begun_at IS NOT NULL
        OR (SELECT count(*) FROM interlock.instance_backup o WHERE o.working AND o.begun_at IS NOT NULL) < CAST($2 AS integer))
RETURNING 1;

-- name: verified
-- Worked on → by nobody, and known to be whole.
UPDATE interlock.instance_backup b
   SET working = false, error = NULL, error_code = NULL, verified_at = CAST($2 AS timestamptz), updated_at = CAST($2 AS timestamptz)
 WHERE b.id = CAST($1 AS text) AND b.state = 'made'
RETURNING 1;

-- name: finish
-- Worked on → by nobody; with the error that it ended with.
UPDATE interlock.instance_backup b
   SET working = false, error = CAST($2 AS text), error_code = CAST($3 AS text), updated_at = CAST($4 AS timestamptz)
 WHERE b.id = CAST($1 AS text)
RETURNING 1;

-- name: restoring
-- The orchestration that works on an instance and restores from it.
SELECT i.orchestration FROM interlock.instance i CROSS JOIN LATERAL interlock.read_orchestration_v1(i.orchestration) o
 WHERE i.working AND o.name IN ('instances.restore', 'instances.create_from') AND o.input ->> 'backup' = CAST($1 AS text)
 LIMIT 1;

-- name: making
-- One of that instance's that is being made.
SELECT b.id, b.orchestration FROM interlock.instance_backup b
 WHERE b.instance = CAST($1 AS text) AND b.state = 'making' LIMIT 1;

-- name: paths
-- Of that instance, or of all: where those made are.
SELECT b.id, b.path FROM interlock.instance_backup b
 WHERE b.state = 'made' AND (CAST($1 AS text) IS NULL OR b.instance = CAST($1 AS text));

-- name: prunable
-- Of that instance, or of all: those made that are not among the newest so many, or older than so many days; never the
-- newest, none that is worked on or restored from, and none that somebody else has locked. The last ones do not count at all.
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
