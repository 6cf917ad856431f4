-- name: lease
-- The holder of a lease, and its expiry.
SELECT token, grant_id, boot, expires_at, holder FROM interlock_lease WHERE name = ?;

-- name: add
-- A name that was never leased before gets a row, free.
INSERT INTO interlock_lease (name, token) SELECT ?, token_floor FROM interlock_file;

-- name: grant
-- Free → held. The caller has checked in the same transaction that it is free.
UPDATE interlock_lease
   SET token = max(token + 1, :now_us), grant_id = :grant_id, boot = :boot, expires_at = :expires_at, ttl = :ttl,
       holder = :holder, host = :host, pid = :pid, metadata = :metadata, acquired_at = :wall, used_at = :wall
 WHERE name = :name
RETURNING token;

-- name: renew
-- Held → held for longer. An expired lease stays lost, even if nothing has taken it.
UPDATE interlock_lease SET expires_at = ?, ttl = ?, used_at = ?
 WHERE name = ? AND token = ? AND grant_id = ? AND boot = ? AND expires_at > ?;

-- name: release
-- Held → free, by the grant that holds it.
UPDATE interlock_lease SET grant_id = NULL, expires_at = 0 WHERE name = ? AND token = ? AND grant_id = ?;

-- name: is_holder
-- A row if that grant is the latest one, expired or not.
SELECT 1 FROM interlock_lease WHERE name = ? AND token = ? AND grant_id = ?;

-- name: is_current
-- A row if that grant holds the lease now.
SELECT 1 FROM interlock_lease WHERE name = ? AND token = ? AND grant_id = ? AND boot = ? AND expires_at > ?;

-- name: queue
-- The waiters for a lease, in order of arrival.
SELECT grant_id, boot, listener, seen_at, offered_at FROM interlock_waiter WHERE name = ? ORDER BY place;

-- name: enqueue
-- New → waiting. A repeated request keeps its position, and may have another listener.
INSERT INTO interlock_waiter (grant_id, name, boot, listener, seen_at, holder, host, pid) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (grant_id) DO UPDATE
   SET boot = excluded.boot, listener = excluded.listener, seen_at = excluded.seen_at, offered_at = NULL;

-- name: dequeue
-- Waiting → gone.
DELETE FROM interlock_waiter WHERE grant_id = ? RETURNING name, offered_at;

-- name: offer
-- Waiting → notified that it is first.
UPDATE interlock_waiter SET offered_at = ? WHERE grant_id = ?;

-- name: give_up
-- All waiters of a listener → passed over, until they ask again.
UPDATE interlock_waiter SET offered_at = -1 WHERE listener = ?;

-- name: waiters
-- All waiters, for the sweep.
SELECT grant_id, boot, listener, seen_at, offered_at FROM interlock_waiter;

-- name: all_leases
-- All leases, for operators.
SELECT name, token, grant_id, boot, expires_at, ttl, holder, host, pid, metadata, acquired_at, used_at
  FROM interlock_lease ORDER BY name;

-- name: one_lease
-- The same of one.
SELECT name, token, grant_id, boot, expires_at, ttl, holder, host, pid, metadata, acquired_at, used_at
  FROM interlock_lease WHERE name = ?;

-- name: all_waiters
-- All waiters in order, with the columns that show if they are alive.
SELECT name, holder, host, pid, grant_id, boot, listener, seen_at, offered_at FROM interlock_waiter ORDER BY name, place;

-- name: break
-- Held → broken: without a grant, and free when it expires, or at once.
UPDATE interlock_lease SET grant_id = NULL, expires_at = CASE WHEN ? THEN 0 ELSE expires_at END WHERE name = ?;

-- name: end_broken
-- Broken → free, before its time is over: its holder has stopped.
UPDATE interlock_lease SET expires_at = 0 WHERE name = ? AND token = ? AND grant_id IS NULL;

-- name: unused
-- Leases that are not held, have no waiters, and were not used since then.
SELECT name, token FROM interlock_lease l
 WHERE (boot IS NOT ? OR expires_at <= ?) AND used_at < ?
   AND NOT EXISTS (SELECT 1 FROM interlock_waiter w WHERE w.name = l.name)
 LIMIT 1000;

-- name: delete_lease
-- Free → unknown. The floor is raised first.
DELETE FROM interlock_lease WHERE name = ?;

-- name: raise_floor
-- The tokens of a name that comes back are greater than every token it ever had.
UPDATE interlock_file SET token_floor = max(token_floor, ?);

-- name: held
-- The leases that are held now and whose names begin with a prefix.
SELECT name, token, holder, host, pid, metadata, acquired_at, expires_at - ?
  FROM interlock_lease WHERE grant_id IS NOT NULL AND boot = ? AND expires_at > ? AND substr(name, 1, length(?)) = ?
 ORDER BY name;

-- name: read_record
-- The record under a key.
SELECT key, token, value, written_at FROM interlock_record WHERE key = ?;

-- name: write_record
-- Unknown or older → written. The caller has checked in the same transaction that its grant is current.
INSERT INTO interlock_record (key, token, value, written_at) VALUES (?, ?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET token = excluded.token, value = excluded.value, written_at = excluded.written_at;

-- name: delete_records
-- Delete old records whose keys begin with a prefix.
DELETE FROM interlock_record WHERE key IN (
    SELECT key FROM interlock_record WHERE written_at < ? AND substr(key, 1, length(?)) = ? LIMIT 1000
);
