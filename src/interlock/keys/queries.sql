-- name: insert
-- Nothing → a key. An existing key stays as it is.
INSERT INTO interlock.api_key (id, name, digest, created_at)
VALUES (CAST($1 AS text), CAST($2 AS text), CAST($3 AS bytea), interlock.now_v1())
    ON CONFLICT ON CONSTRAINT api_key_digest_once DO NOTHING;

-- name: read
-- A key by its hash, revoked or not.
SELECT k.id, k.name, k.created_at, k.last_used_at, k.revoked_at
  FROM interlock.api_key k WHERE k.digest = CAST($1 AS bytea);

-- name: use
-- The id of a key that is not revoked. Its last use is noted once a minute.
WITH found AS (
    SELECT k.id, k.last_used_at FROM interlock.api_key k WHERE k.digest = CAST($1 AS bytea) AND k.revoked_at IS NULL
), noted AS (
    UPDATE interlock.api_key k SET last_used_at = interlock.now_v1()
      FROM found f
     WHERE k.id = f.id AND (f.last_used_at IS NULL OR f.last_used_at < interlock.now_v1() - interval '1 minute')
)
SELECT f.id FROM found f;

-- name: list
-- All keys, the newest last.
SELECT k.id, k.name, k.created_at, k.last_used_at, k.revoked_at FROM interlock.api_key k ORDER BY k.created_at, k.id;

-- name: revoke
-- Valid → revoked, once. No row if there is no such key.
UPDATE interlock.api_key k SET revoked_at = coalesce(k.revoked_at, interlock.now_v1())
 WHERE k.id = CAST($1 AS text)
RETURNING k.id, k.name, k.created_at, k.last_used_at, k.revoked_at;
