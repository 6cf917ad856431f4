-- name: acquire_one
-- Take the lease if it is free; else, if asked to, queue.
SELECT status, token, remaining, retry_after, held_by, clock
  FROM interlock.acquire_v1($1, $2, $3, $4, $5::text::jsonb, $6, $7, $8, $9, $10);

-- name: acquire_many
-- The same for a batch.
SELECT request, status, token, remaining, retry_after, holder, clock
  FROM interlock.acquire_many_v1($1, $2, $3, $4::text[]::jsonb[], $5, $6, $7, $8, $9, $10);

-- name: register
-- Names that nobody has leased before get a row. It need not survive a crash before somebody has leased them.
SELECT interlock.register_v1($1)
  FROM (SELECT set_config('synchronous_commit', 'off', true) OFFSET 0) AS quickly;

-- name: release_one
-- Free the lease, and tell whose turn it is. Alone in its transaction it need not wait for the disk: a release that a
-- crash forgets only means that the lease expires.
SELECT status, offered, elsewhere, next_token, next_until
  FROM (SELECT set_config('synchronous_commit', 'off', true) OFFSET 0) AS quickly,
       LATERAL interlock.release_v1($1, $2, $3, $4);

-- name: hand_on
-- The same; but the first in the queue, if there is one, has it then.
CALL interlock.hand_on_v1($1, $2, $3, $4);

-- name: release_many
-- The same for a batch, or only for what somebody waits for.
SELECT request, status, offered, elsewhere
  FROM (SELECT set_config('synchronous_commit', 'off', true) OFFSET 0) AS quickly,
       LATERAL interlock.release_many_v1($1, $2, $3, $4, $5);

-- name: renew
-- Extend what is still held. One ttl is that of all.
SELECT lost, locked, clock, timeline, broken, broken_by, broken_why
  FROM string_to_array($1, E'\x1f') AS names, LATERAL interlock.renew_many_v1(
           names, $2,
           CASE cardinality($3::double precision[])
                WHEN 1 THEN array_fill(($3::double precision[])[1], ARRAY[cardinality(names)]) ELSE $3 END);

-- name: abandon
-- Leave the queue, and pass on what was offered.
SELECT name, grant_id, listener FROM interlock.abandon_many_v1($1, $2, $3);

-- name: offer
-- Tell the first in the queue of each free lease.
SELECT name, grant_id, listener FROM interlock.offer_v1($1, $2);

-- name: show_alive
-- The session that listens holds a lock by which others see that its process lives.
SELECT interlock.listen_v1($1);

-- name: is_alive
-- Whether that session is one of this server's.
SELECT NOT pg_catalog.pg_try_advisory_xact_lock_shared(1229737037, $1);

-- name: sweep
-- Delete what nobody has used for long.
SELECT interlock.sweep_v1($1);

-- name: held
-- The leases that are held now, by the beginning of their names.
SELECT name, token, holder, host, pid, metadata, acquired_at, remaining FROM interlock.held_v1($1);

-- name: wanted
-- Whether others came before.
SELECT interlock.wanted_v1($1);

-- name: read_record
-- What is remembered under a key.
SELECT key, token, value, written_at FROM interlock.read_record_v1($1);

-- name: write_record
-- Remember it, if that grant is current.
SELECT interlock.write_record_v1($1, $2::text::json, $3, $4, $5);

-- name: forget_records
-- Old → unknown, by the beginning of the key.
SELECT interlock.forget_records_v1($1, $2);
