-- True if the lease is held, or a waiter that will be notified waits for it: then a newcomer queues behind them. Both are
-- read in one snapshot, so that a waiter that has just become the holder is not missed.
CREATE FUNCTION interlock.wanted_v1(lease_name text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    moment timestamptz := interlock.now_v1();
BEGIN
    RETURN EXISTS (SELECT FROM interlock.lease l WHERE l.name = lease_name AND l.expires_at > moment)
        OR EXISTS (SELECT FROM interlock.waiter w
                    WHERE w.name = lease_name AND w.listener IS NOT NULL
                      AND w.enqueued_at >= (SELECT interlock.queue_start_v1(l.queue_from, l.token)
                                              FROM interlock.lease l WHERE l.name = lease_name)
                      AND interlock.waits_v1(w.listener, w.seen_at, w.offered_at, moment));
END
$$;

REVOKE EXECUTE ON FUNCTION interlock.wanted_v1(text) FROM PUBLIC;
