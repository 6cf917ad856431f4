-- What an instance's own server is asked, by its owner.

-- name: version
-- 17.5
SELECT split_part(current_setting('server_version'), ' ', 1);

-- name: send_away
-- How many other sessions have this one's name; they are told to end.
SELECT count(*) FROM (
    SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
     WHERE a.application_name = current_setting('application_name') AND a.pid <> pg_backend_pid() AND a.usename = current_user
) told;

-- name: outcome
-- What has become of a transaction: committed, aborted, in progress, or null if that is forgotten.
SELECT pg_xact_status(CAST(CAST($1 AS text) AS xid8));
