-- name: acquire_one
-- Take the lease if it is free; else, if asked to, queue.
SELECT status, token, remaining, retry_after, held_by, clock
  FROM interlock.acquire_v1($1, $2, $3, $4, $5::text::jsonb, $6, $7, $8, $9, $10);

-- name: acquire_many
-- The same for a batch.
SELECT request, status, token, remaining, retry_after, holder, clock
  FROM interlock.acquire_many_v1($1, $2, $3, $4::text[]::jsonb[], $5, $6, $7, $8, $9, $10);

-- name: register
-- Add rows for names that were never leased. They need not survive a crash before the first grant.
SELECT interlock.register_v1($1)
  FROM (SELECT set_config('synchronous_commit', 'off', true) OFFSET 0) AS quickly;

-- name: release_one
-- Free the lease, and notify the first waiter. Alone in its transaction it need not wait for the disk: if a crash loses
-- the release, the lease expires instead.
SELECT status, offered, elsewhere, next_token, next_until
  FROM (SELECT set_config('synchronous_commit', 'off', true) OFFSET 0) AS quickly,
       LATERAL interlock.release_v1($1, $2, $3, $4);

-- name: hand_over
-- The same, but the first waiter in the queue, if there is one, is granted the lease at once.
CALL interlock.hand_on_v1($1, $2, $3, $4);

-- name: release_many
-- The same for a batch, or only for the leases that have waiters.
SELECT request, status, offered, elsewhere
  FROM (SELECT set_config('synchronous_commit', 'off', true) OFFSET 0) AS quickly,
       LATERAL interlock.release_many_v1($1, $2, $3, $4, $5);

-- name: renew
-- Extend the leases that are still held. A single ttl applies to all of them.
SELECT lost, locked, clock, timeline, broken, broken_by, broken_why
  FROM string_to_array($1, E'\x1f') AS names, LATERAL interlock.renew_many_v1(
           names, $2,
           CASE cardinality($3::double precision[])
                WHEN 1 THEN array_fill(($3::double precision[])[1], ARRAY[cardinality(names)]) ELSE $3 END);

-- name: abandon
-- Leave the queue, and offer to the next waiter what was offered to these.
SELECT name, grant_id, listener FROM interlock.abandon_many_v1($1, $2, $3);

-- name: offer
-- Notify the first waiter of each free lease.
SELECT name, grant_id, listener FROM interlock.offer_v1($1, $2);

-- name: show_alive
-- Take the lock by which other processes see that the process of this listening session is alive.
SELECT interlock.listen_v1($1);

-- name: is_alive
-- True if that listening session is connected to this server.
SELECT NOT pg_catalog.pg_try_advisory_xact_lock_shared(1229737037, $1);

-- name: sweep
-- Delete leases that were not used for long.
SELECT interlock.sweep_v1($1);

-- name: held
-- The leases that are held now and whose names begin with a prefix.
SELECT name, token, holder, host, pid, metadata, acquired_at, remaining FROM interlock.held_v1($1);

-- name: is_contended
-- True if the lease is held, or a waiter that will be notified waits for it.
SELECT interlock.wanted_v1($1);

-- name: read_record
-- The record under a key.
SELECT key, token, value, written_at FROM interlock.read_record_v1($1);

-- name: write_record
-- Write a record, if that grant is current.
SELECT interlock.write_record_v1($1, $2::text::json, $3, $4, $5);

-- name: delete_records
-- Delete old records whose keys begin with a prefix.
SELECT interlock.forget_records_v1($1, $2);
