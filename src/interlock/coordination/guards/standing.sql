-- name: stand
-- The guards of these grants stand in the session from now on, or here is why not. The casts are for drivers, as in `call`.
SELECT held ->> 0, interlock.stand_v1(
    held ->> 0, CAST(held ->> 1 AS bigint), CAST(held ->> 2 AS uuid), CAST($2 AS bigint)
) FROM jsonb_array_elements(CAST(CAST($1 AS text) AS jsonb)) AS held;

-- name: stand_down
-- They stand no longer.
SELECT interlock.stand_down_v1(held ->> 0, CAST(held ->> 1 AS bigint), CAST(held ->> 2 AS uuid))
  FROM jsonb_array_elements(CAST(CAST($1 AS text) AS jsonb)) AS held;
