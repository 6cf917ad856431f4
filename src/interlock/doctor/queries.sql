-- The doctor's queries. They change nothing, and read nothing that a plain role may not see.

-- name: session
-- The session's role and database.
SELECT session_user AS role, current_database() AS database, current_setting('server_version') AS version,
       pg_is_in_recovery() AS is_standby,
       has_database_privilege(current_database(), 'CREATE') AS may_create_schema;

-- name: settings
-- Settings as this session has them, with their sources.
SELECT name, setting, unit, source FROM pg_settings WHERE name = ANY ($1::text[]);

-- name: standbys
-- Standbys that stream from here, without backups and logical subscribers; a plain role sees the rows, not their content.
SELECT r.application_name AS name, r.state, r.sync_state,
       extract(epoch FROM clock_timestamp() - r.reply_time)::float8 AS answered_ago
  FROM pg_stat_replication r
  LEFT JOIN pg_replication_slots s ON s.active_pid = r.pid
 WHERE s.slot_type IS DISTINCT FROM 'logical' AND r.state IS DISTINCT FROM 'backup'
 ORDER BY r.pid;

-- name: rooms
-- Limits and numbers of connections: in all, of this role, in this database. A limit of -1 is none.
SELECT 'server' AS limit_of,
       current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
         - coalesce(current_setting('reserved_connections', true)::integer, 0) AS "limit",
       (SELECT sum(numbackends) FROM pg_stat_database)::integer AS used
UNION ALL
SELECT 'role', rolconnlimit, (SELECT count(*) FROM pg_stat_activity WHERE usename = session_user)::integer
  FROM pg_roles WHERE rolname = session_user
UNION ALL
SELECT 'database', d.datconnlimit, s.numbackends
  FROM pg_database d JOIN pg_stat_database s ON s.datid = d.oid WHERE d.datname = current_database();

-- name: privileges
-- Which of these privileges the role has, and which PUBLIC has; null if there is no object of that name. The server does
-- not resolve the names, because that would already need a privilege.
SELECT need.privilege, need.kind, need.name, grantee = 'public' AS by_all,
       CASE need.kind
       WHEN 'schema' THEN has_schema_privilege(grantee, n.oid, need.privilege)
       WHEN 'table' THEN (SELECT bool_and(has_table_privilege(grantee, c.oid, need.privilege)) FROM pg_class c
                           WHERE c.relnamespace = n.oid AND c.relname = need.name)
       WHEN 'function' THEN (SELECT bool_and(has_function_privilege(grantee, p.oid, need.privilege)) FROM pg_proc p
                              WHERE p.pronamespace = n.oid AND p.proname = need.name)
       END AS held
  FROM unnest($2::text[], $3::text[], $4::text[]) AS need (privilege, kind, name)
 CROSS JOIN unnest(ARRAY[current_user, 'public']) AS grantee
  JOIN pg_namespace n ON n.nspname = $1;
