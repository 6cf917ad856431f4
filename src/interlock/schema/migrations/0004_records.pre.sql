-- Records: values under keys, such as the result of finished work. Only the holder of a lease writes them; the token of its
-- grant is kept with the value.
CREATE TABLE interlock.record (
    key        text COLLATE "C" NOT NULL,
    token      bigint           NOT NULL,
    value      json             NOT NULL,
    written_at timestamptz      NOT NULL,
    CONSTRAINT record_pkey PRIMARY KEY (key),
    CONSTRAINT record_key_length CHECK (octet_length(key) BETWEEN 1 AND 255)
);

-- The record under that key, or no row.
CREATE FUNCTION interlock.read_record_v1(record_key text)
    RETURNS TABLE (key text, token bigint, value text, written_at double precision)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT r.key, r.token, r.value::text, extract(epoch FROM r.written_at)::double precision
      FROM interlock.record r WHERE r.key = record_key
    $$;

-- Write a record, if the grant is current. Decides: the lock of the lease's row, as in `guard_v1`. A process that wants the
-- lease next waits for this transaction; if another process has it already, no row matches and nothing is written: false.
CREATE FUNCTION interlock.write_record_v1(
    record_key text, record_value json, lease_name text, lease_token bigint, lease_grant uuid
) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms'
    SET enable_seqscan = off
    AS $$
DECLARE
    lease  interlock.lease;
    moment timestamptz;
BEGIN
    SELECT * INTO lease FROM interlock.lease l
     WHERE l.name = lease_name AND l.token = lease_token AND l.grant_id = lease_grant FOR KEY SHARE;
    moment := interlock.now_v1();
    IF NOT FOUND OR lease.expires_at <= moment THEN
        RETURN false;
    END IF;
    PERFORM interlock.durably_v1();
    INSERT INTO interlock.record AS r (key, token, value, written_at)
    VALUES (record_key, lease_token, record_value, moment)
        ON CONFLICT (key) DO UPDATE
       SET token = excluded.token, value = excluded.value, written_at = excluded.written_at;
    RETURN true;
END
$$;

-- The leases that are held now and whose names begin with a prefix, by name. The grant_id is not shown.
-- Planned each time, so that the index serves every prefix.
CREATE FUNCTION interlock.held_v1(prefix text)
    RETURNS TABLE (name text, token bigint, holder text, host text, pid integer, metadata text,
                   acquired_at double precision, remaining double precision)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_custom_plan
    AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := interlock.now_v1();
    beyond text := left(prefix, -1) || chr(ascii(right(prefix, 1)) + 1);  -- the first name without that prefix
BEGIN
    RETURN QUERY
    SELECT l.name, l.token, l.holder, l.host, l.pid, l.metadata::text, extract(epoch FROM l.acquired_at)::double precision,
           extract(epoch FROM l.expires_at - moment)::double precision
      FROM interlock.lease l
     WHERE l.grant_id IS NOT NULL AND l.expires_at > moment
       AND (prefix = '' OR l.name >= prefix AND l.name < beyond)
     ORDER BY l.name;
END
$$;

REVOKE EXECUTE ON FUNCTION
    interlock.read_record_v1(text), interlock.write_record_v1(text, json, text, bigint, uuid), interlock.held_v1(text)
FROM PUBLIC;

CREATE INDEX record_written_at ON interlock.record (written_at);

-- Delete records under keys that begin with a prefix and were written longer ago, a thousand rows at a time. Returns the
-- number of deleted rows. A row that another transaction is rewriting is skipped.
CREATE FUNCTION interlock.forget_records_v1(prefix text, older_than double precision) RETURNS integer
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    since     timestamptz := interlock.now_v1() - make_interval(secs => older_than);
    forgotten integer;
BEGIN
    WITH old AS MATERIALIZED (
        SELECT r.key FROM interlock.record r
         WHERE r.written_at < since AND starts_with(r.key, prefix)
         ORDER BY r.written_at LIMIT 1000 FOR UPDATE SKIP LOCKED
    )
    DELETE FROM interlock.record r USING old WHERE r.key = old.key;
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    RETURN forgotten;
END
$$;

REVOKE EXECUTE ON FUNCTION interlock.forget_records_v1(text, double precision) FROM PUBLIC;
