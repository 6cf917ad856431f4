-- name: stand
-- The guard of a grant stands in the session from now on, or here is why not. The casts are for drivers, as in `call`.
SELECT interlock.stand_v1(
    CAST($1 AS text), CAST($2 AS bigint), CAST(CAST($3 AS text) AS uuid), CAST($4 AS bigint)
);

-- name: stand_down
-- It stands no longer.
SELECT interlock.stand_down_v1(CAST($1 AS text), CAST($2 AS bigint), CAST(CAST($3 AS text) AS uuid));
