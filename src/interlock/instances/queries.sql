-- name: insert
-- Nothing → creating. See 0008_instances: names that are held are unique.
INSERT INTO interlock.instance (id, name, dns_name, driver, version, storage_bytes, parameters, tags, orchestration,
                                created_at, updated_at)
VALUES (CAST($1 AS text), CAST($2 AS text), CAST($3 AS text), CAST($4 AS text), CAST($5 AS text), CAST($6 AS bigint),
        CAST($7 AS jsonb), CAST($8 AS jsonb), CAST($9 AS text), interlock.now_v1(), interlock.now_v1())
RETURNING 1;

-- name: read
-- One, as it is.
SELECT :columns
  FROM interlock.instance i WHERE i.id = CAST($1 AS text);

-- name: lock
-- The same; nobody else writes it until the transaction ends.
SELECT :columns
  FROM interlock.instance i WHERE i.id = CAST($1 AS text) FOR NO KEY UPDATE;

-- name: find
-- By its id, or by its name if it is not deleted; whoever holds the name goes before those that held it.
SELECT :columns
  FROM interlock.instance i
 WHERE i.id = CAST($1 AS text) OR (i.name = CAST($1 AS text) AND i.deleted_at IS NULL)
 ORDER BY i.id = CAST($1 AS text) DESC, i.names_freed_at IS NULL DESC, i.created_at DESC LIMIT 1;

-- name: list_up
-- A page: also deleted ones or not, of these states, with this in their names, with these tags; sorted by that, after that key
-- and id, so many.
SELECT k.key, :columns
  FROM interlock.instance i
 CROSS JOIN LATERAL (SELECT CASE CAST($5 AS text) WHEN 'state' THEN i.state WHEN 'health' THEN i.health
         WHEN 'created' THEN to_char(i.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') ELSE i.name END
         COLLATE "C" AS key) k
 WHERE (CAST($1 AS boolean) OR i.deleted_at IS NULL)
   AND (CAST($2 AS text[]) IS NULL OR i.state = ANY (CAST($2 AS text[])))
   AND (CAST($3 AS text) IS NULL OR strpos(i.name, CAST($3 AS text)) > 0)
   AND i.tags @> CAST($4 AS jsonb)
   AND (CAST($6 AS text) IS NULL OR (k.key, i.id) > (CAST($6 AS text), CAST($7 AS text)))
 ORDER BY k.key, i.id LIMIT CAST($8 AS integer);

-- name: list_down
-- The same, the other way round.
SELECT k.key, :columns
  FROM interlock.instance i
 CROSS JOIN LATERAL (SELECT CASE CAST($5 AS text) WHEN 'state' THEN i.state WHEN 'health' THEN i.health
         WHEN 'created' THEN to_char(i.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') ELSE i.name END
         COLLATE "C" AS key) k
 WHERE (CAST($1 AS boolean) OR i.deleted_at IS NULL)
   AND (CAST($2 AS text[]) IS NULL OR i.state = ANY (CAST($2 AS text[])))
   AND (CAST($3 AS text) IS NULL OR strpos(i.name, CAST($3 AS text)) > 0)
   AND i.tags @> CAST($4 AS jsonb)
   AND (CAST($6 AS text) IS NULL OR (k.key, i.id) < (CAST($6 AS text), CAST($7 AS text)))
 ORDER BY k.key DESC, i.id DESC LIMIT CAST($8 AS integer);

-- name: hand_over
-- Worked on by nobody, or by another → by this orchestration.
UPDATE interlock.instance i
   SET orchestration = CAST($2 AS text), working = true, error = NULL, error_code = NULL, updated_at = interlock.now_v1()
 WHERE i.id = CAST($1 AS text)
RETURNING i.updated_at;

-- name: finish
-- Worked on → by nobody; with the error that it ended with.
UPDATE interlock.instance i
   SET working = false, error = CAST($2 AS text), error_code = CAST($3 AS text), updated_at = CAST($4 AS timestamptz)
 WHERE i.id = CAST($1 AS text)
RETURNING 1;

-- name: note_endpoint
-- Where clients connect, and which version it is, if that has changed.
UPDATE interlock.instance i
   SET host = CAST($2 AS text), port = CAST($3 AS integer), owner = CAST($4 AS text), database = CAST($5 AS text),
       ca = CAST($6 AS text), version = coalesce(CAST($7 AS text), i.version), updated_at = CAST($8 AS timestamptz)
 WHERE i.id = CAST($1 AS text)
   AND (i.host, i.port, i.owner, i.database, i.ca, i.version)
       IS DISTINCT FROM (CAST($2 AS text), CAST($3 AS integer), CAST($4 AS text), CAST($5 AS text), CAST($6 AS text),
                         coalesce(CAST($7 AS text), i.version))
RETURNING 1;

-- name: note_parameters
-- The parameters that its driver has taken.
UPDATE interlock.instance i SET parameters = CAST($2 AS jsonb), updated_at = CAST($3 AS timestamptz)
 WHERE i.id = CAST($1 AS text)
RETURNING 1;

-- name: note_storage
-- The storage that its driver has given it.
UPDATE interlock.instance i SET storage_bytes = CAST($2 AS bigint), updated_at = CAST($3 AS timestamptz)
 WHERE i.id = CAST($1 AS text)
RETURNING 1;

-- name: note_health
-- Its health, if that has changed: then a row.
UPDATE interlock.instance i SET health = CAST($2 AS text), updated_at = CAST($3 AS timestamptz)
 WHERE i.id = CAST($1 AS text) AND i.health <> CAST($2 AS text) RETURNING 1;

-- name: note_check
-- What a check found, once.
INSERT INTO interlock.instance_check (instance, recorded_at, healthy, milliseconds, detail)
VALUES (CAST($1 AS text), CAST($2 AS timestamptz), CAST($3 AS boolean), CAST($4 AS double precision), CAST($5 AS text))
    ON CONFLICT ON CONSTRAINT instance_check_pkey DO NOTHING
RETURNING 1;

-- name: clock
-- What time it is.
SELECT interlock.now_v1();

-- name: events
-- The newest first; those that come after that one, if one is named.
SELECT e.kind, e.recorded_at, e.detail FROM interlock.instance_event e
 WHERE e.instance = CAST($1 AS text)
   AND (CAST($3 AS timestamptz) IS NULL OR (e.recorded_at, e.kind) < (CAST($3 AS timestamptz), CAST($4 AS text)))
 ORDER BY e.recorded_at DESC, e.kind DESC LIMIT CAST($2 AS integer);

-- name: event
-- What is told of one.
SELECT e.detail FROM interlock.instance_event e
 WHERE e.instance = CAST($1 AS text) AND e.kind = CAST($2 AS text) AND e.recorded_at = CAST($3 AS timestamptz);

-- name: forget_event
-- There, or not → gone.
DELETE FROM interlock.instance_event e
 WHERE e.instance = CAST($1 AS text) AND e.kind = CAST($2 AS text) AND e.recorded_at = CAST($3 AS timestamptz)
RETURNING 1;

-- name: checks
-- The newest first.
SELECT c.recorded_at, c.healthy, c.milliseconds, c.detail FROM interlock.instance_check c
 WHERE c.instance = CAST($1 AS text) ORDER BY c.recorded_at DESC LIMIT CAST($2 AS integer);

-- name: prune_events
-- Recorded longer ago than so many seconds → gone, so many at most.
DELETE FROM interlock.instance_event e WHERE (e.instance, e.recorded_at, e.kind) IN (
    SELECT old.instance, old.recorded_at, old.kind FROM interlock.instance_event old
     WHERE old.recorded_at < interlock.now_v1() - make_interval(secs => CAST($1 AS double precision))
     ORDER BY old.recorded_at LIMIT CAST($2 AS integer))
RETURNING 1;

-- name: prune_checks
-- The same.
DELETE FROM interlock.instance_check c WHERE (c.instance, c.recorded_at) IN (
    SELECT old.instance, old.recorded_at FROM interlock.instance_check old
     WHERE old.recorded_at < interlock.now_v1() - make_interval(secs => CAST($1 AS double precision))
     ORDER BY old.recorded_at LIMIT CAST($2 AS integer))
RETURNING 1;
