-- Queries to an instance's own server, run as its owner.

-- name: facts
-- Only client sessions have a role here. An owner without superuser rights sees that they exist, but not what they do.
SELECT split_part(current_setting('server_version'), ' ', 1), pg_database_size(current_database()),
       (SELECT count(*) FROM pg_stat_activity a WHERE a.usesysid IS NOT NULL AND a.datid IS NOT NULL AND a.pid <> pg_backend_pid()),
       CAST(current_setting('max_connections') AS integer), pg_postmaster_start_time();
