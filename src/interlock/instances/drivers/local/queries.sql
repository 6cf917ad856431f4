-- Queries of the superuser to an instance's own server. The server itself builds statements that cannot take parameters.

-- name: make_owner
-- The statement that creates the role, or sets the password of the existing one.
SELECT format(CASE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = $1::text)
                   THEN 'ALTER ROLE %I LOGIN PASSWORD %L' ELSE 'CREATE ROLE %I LOGIN PASSWORD %L' END,
              $1::text, $2::text);

-- name: make_database
-- The statement that creates the owner's database, unless it exists.
SELECT format('CREATE DATABASE %I OWNER %I', $1::text, $1::text)
 WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = $1::text);

-- name: refused_settings
-- Settings in the files that the running server refuses, except those that have to wait for a restart.
SELECT f.name
  FROM pg_file_settings f LEFT JOIN pg_settings s ON s.name = f.name
 WHERE f.error IS NOT NULL AND f.name IS NOT NULL AND s.context IS DISTINCT FROM 'postmaster'
 ORDER BY f.name;

-- name: reload
-- Signal the server to read its files. Returns the time of the settings that this session uses.
SELECT pg_conf_load_time() FROM pg_reload_conf();

-- name: loaded_since
-- True if this session, and so the server, has read its files since then.
SELECT pg_conf_load_time() > $1;

-- name: waits_for_restart
-- True if a changed setting takes effect only after a restart.
SELECT EXISTS (SELECT FROM pg_settings WHERE pending_restart);
