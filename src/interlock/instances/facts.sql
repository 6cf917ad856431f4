-- What an instance's own server is asked, by its owner.

-- name: facts
-- Only sessions of clients have a role here; what they do is hidden from an owner that is no superuser, but not that they are.
SELECT split_part(current_setting('server_version'), ' ', 1), pg_database_size(current_database()),
       (SELECT count(*) FROM pg_stat_activity a WHERE a.usesysid IS NOT NULL AND a.datid IS NOT NULL AND a.pid <> pg_backend_pid()),
       CAST(current_setting('max_connections') AS integer), pg_postmaster_start_time();
