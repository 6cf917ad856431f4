-- name: claim
-- Free names → the owner's, all or none.
SELECT name, status, id, owner, since, released_at
  FROM interlock.claim_v1(CAST($1 AS text), CAST($2 AS text[]), CAST($3 AS text), CAST($4 AS double precision), CAST($5 AS boolean));

-- name: claim_one
-- A free name → the owner's.
SELECT status, id, owner, since, released_at
  FROM interlock.claim_one_v1(CAST($1 AS text), CAST($2 AS text), CAST($3 AS text), CAST($4 AS double precision), CAST($5 AS boolean));

-- name: release
-- The owner's name → free, or the next owner's.
SELECT status, id, owner, since, released_at, passed_to
  FROM interlock.release_claim_v1(CAST($1 AS text), CAST($2 AS text), CAST($3 AS text), CAST($4 AS double precision), CAST($5 AS text));

-- name: list
-- The ownerships of a scope, a name or an owner; with $4, past ones too.
SELECT id, scope, name, owner, since, released_at, passed_to
  FROM interlock.claims_v1(CAST($1 AS text), CAST($2 AS text), CAST($3 AS text), CAST($4 AS boolean));
