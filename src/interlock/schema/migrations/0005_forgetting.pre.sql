CREATE INDEX record_written_at ON interlock.record (written_at);

-- Delete what was remembered longer ago, under keys that begin like that, a thousand rows at a time: how many it were.
-- A row that somebody is just writing anew is passed over.
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
