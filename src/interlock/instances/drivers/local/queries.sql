-- What the superuser asks an instance's own server. Statements that take no parameters are put together by the server.

-- name: make_owner
-- The statement that makes the role, or gives the one that is there its password.
SELECT format(CASE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = $1::text)
                   THEN 'ALTER ROLE %I LOGIN PASSWORD %L' ELSE 'CREATE ROLE %I LOGIN PASSWORD %L' END,
              $1::text, $2::text);

-- name: make_database
-- The statement that makes the owner's database, unless it is there.
SELECT format('CREATE DATABASE %I OWNER %I', $1::text, $1::text)
 WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = $1::text);

-- name: refused_settings
-- What the running server would not take from its files, other than what has to wait for a restart.
SELECT f.name
  FROM pg_file_settings f LEFT JOIN pg_settings s ON s.name = f.name
 WHERE f.error IS NOT NULL AND f.name IS NOT NULL AND s.context IS DISTINCT FROM 'postmaster'
 ORDER BY f.name;

-- name: reload
-- Tell the server to read its files; since when this session goes by what it has read.
SELECT pg_conf_load_time() FROM pg_reload_conf();

-- name: loaded_since
-- Whether this session, and so the server, has read its files since then.
SELECT pg_conf_load_time() > $1;

-- name: waits_for_restart
-- Whether anything has changed that counts only after a restart.
SELECT EXISTS (SELECT FROM pg_settings WHERE pending_restart);
