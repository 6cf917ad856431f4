-- Queries to an instance's own server, run as its owner.

-- name: version
-- 17.5
SELECT split_part(current_setting('server_version'), ' ', 1);

-- name: send_away
-- Terminate the other sessions with this session's application name. Returns their number.
SELECT count(*) FROM (
    SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
     WHERE a.application_name = current_setting('application_name') AND a.pid <> pg_backend_pid() AND a.usename = current_user
) told;

-- name: outcome
-- The status of a transaction: committed, aborted, in progress, or null if the server no longer knows it.
SELECT pg_xact_status(CAST(CAST($1 AS text) AS xid8));
