-- One lease: a name, its holder and its expiry. The row stays when the lease is free, so its token never goes back. It is
-- free once `expires_at` has passed. The client draws `grant_id` before it sends the request: a grant is the triple (name,
-- token, grant_id), and a client that does not know all three changes nothing. There is no CHECK here because each would
-- cost every UPDATE 30 microseconds; rows only come from `register_v1`, which checks the name.
-- `listener` is set if the previous holder handed the lease over to a waiter. Until that waiter renews, or sends a request,
-- it is not known to have received the notification, and the grant ends after a second.
-- `queue_from` is where the queue began at the last release; see `queue_start_v1`.
CREATE TABLE interlock.lease (
    name        text COLLATE "C" NOT NULL,
    token       bigint           NOT NULL,
    grant_id    uuid,
    holder      text,
    host        text,
    pid         integer,
    listener    integer,
    metadata    jsonb,
    ttl         double precision NOT NULL DEFAULT 0,
    acquired_at timestamptz,
    renewed_at  timestamptz,
    expires_at  timestamptz      NOT NULL DEFAULT '-infinity',
    queue_from  timestamptz      NOT NULL DEFAULT '-infinity',
    CONSTRAINT lease_pkey PRIMARY KEY (name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

-- The waiters for a lease, in order of arrival. Nothing here needs to survive a crash: a live waiter asks again.
-- A process that can be notified is alive while its session holds the advisory lock of its `listener`; a process that
-- cannot (behind a pooler) is alive while it keeps polling. A waiter with a `ttl` may be granted the lease by a hand-over.
CREATE UNLOGGED TABLE interlock.waiter (
    grant_id    uuid             NOT NULL,
    name        text COLLATE "C" NOT NULL,
    enqueued_at timestamptz      NOT NULL,
    listener    integer,
    seen_at     timestamptz      NOT NULL,
    offered_at  timestamptz,
    holder      text,
    host        text,
    pid         integer,
    ttl         double precision,
    metadata    jsonb,
    CONSTRAINT waiter_pkey PRIMARY KEY (grant_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

CREATE INDEX waiter_queue ON interlock.waiter (name, enqueued_at, grant_id);

-- The state that all leases share. A promoted standby may lack the newest grants: from `since`, when the change of the
-- timeline was first observed, nothing is granted for as long as a lease that is missing here could still be trusted.
-- `token_floor` is the highest token of any row that was ever deleted.
-- Queries name `only_row`: in functions that forbid plans which read whole tables, a scan of this table would seem
-- extremely expensive up to version 17, and the server would compile it first, for 100 ms each time.
CREATE TABLE interlock.lease_epoch (
    only_row    boolean          NOT NULL DEFAULT true,
    timeline    integer          NOT NULL,
    since       timestamptz      NOT NULL DEFAULT '-infinity',
    longest_ttl double precision NOT NULL DEFAULT 0,
    token_floor bigint           NOT NULL DEFAULT 0,
    CONSTRAINT lease_epoch_pkey PRIMARY KEY (only_row),
    CONSTRAINT lease_epoch_single CHECK (only_row)
);

-- The operators that broke a lease, and their reasons. `grant_id` is that of the broken grant: with it, the holder can
-- release the lease once it has stopped, and do nothing else.
CREATE TABLE interlock.lease_intervention (
    id         bigint           GENERATED ALWAYS AS IDENTITY,
    name       text COLLATE "C" NOT NULL,
    token      bigint           NOT NULL,
    holder     text,
    host       text,
    pid        integer,
    immediate  boolean          NOT NULL,
    terminated integer[]        NOT NULL,
    reason     text,
    done_by    text             NOT NULL,
    done_at    timestamptz      NOT NULL,
    grant_id   uuid,
    CONSTRAINT lease_intervention_pkey PRIMARY KEY (id)
);

CREATE INDEX lease_intervention_lease ON interlock.lease_intervention (name, token);

-- The server's timeline changes when a standby is promoted and when a backup is restored to a point in time. The control
-- file would show it too late.
CREATE FUNCTION interlock.timeline_v1() RETURNS integer
    LANGUAGE sql VOLATILE
    AS 'SELECT (''x'' || left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8))::bit(32)::integer';

INSERT INTO interlock.lease_epoch (timeline) VALUES (interlock.timeline_v1());

-- True if a waiter in the queue is still alive. The lock is probed in shared mode, so that two concurrent probes do not take
-- each other for the waiter. An offer that is not taken up within a second goes to the next waiter.
CREATE FUNCTION interlock.waits_v1(listener integer, seen_at timestamptz, offered_at timestamptz, moment timestamptz)
    RETURNS boolean LANGUAGE sql VOLATILE
    AS $$
    SELECT (offered_at IS NULL OR offered_at > moment - interval '1 second')
       AND CASE WHEN listener IS NULL THEN seen_at > moment - interval '5 seconds'
                ELSE NOT pg_catalog.pg_try_advisory_xact_lock_shared(1229737037, listener) END
    $$;

-- Mark this session as the live one of `listener`. False: another session has that number.
CREATE FUNCTION interlock.listen_v1(listener integer) RETURNS boolean
    LANGUAGE sql VOLATILE
    AS 'SELECT pg_catalog.pg_try_advisory_lock(1229737037, listener)';

-- An enqueue and a release of one name must not miss each other: a release that does not see the waiter yet, and a waiter
-- that does not see the release yet. Both take a lock here, until they commit; names share 1024 of them. A transaction that
-- joins a queue, or notifies its first waiter, takes it shared; one that frees the lease or leaves the queue, exclusively.
CREATE FUNCTION interlock.queue_lock_v1(name text) RETURNS integer
    LANGUAGE sql IMMUTABLE
    AS 'SELECT pg_catalog.hashtext(name) & 1023';

-- A scan for the first waiter in the queue begins here, and skips the rows of waiters that have left since the oldest open
-- snapshot: an hour's backup would otherwise keep the rows of all waiters of that hour. No new waiter is before it, by the
-- clock, which is read after the queue's lock was taken. If the clock was set back, and now and then in any case, the scan
-- reads all rows.
CREATE FUNCTION interlock.queue_start_v1(queue_from timestamptz, token bigint) RETURNS timestamptz
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE WHEN token % 64 = 0 OR queue_from > pg_catalog.statement_timestamp() THEN '-infinity' ELSE queue_from END
    $$;

-- Note a change of the timeline, and return the shared row. Every grant ends with the timeline that it was made on, whatever
-- the two servers' clocks say; its `expires_at` stays. A clock that was set back does not extend the hold-back.
CREATE FUNCTION interlock.epoch_v1() RETURNS interlock.lease_epoch
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    epoch   interlock.lease_epoch;
    current integer := interlock.timeline_v1();
    moment  timestamptz := interlock.now_v1();
BEGIN
    SELECT * INTO epoch FROM interlock.lease_epoch e WHERE e.only_row;
    IF epoch.timeline = current AND epoch.since <= moment + interval '1 second' THEN
        RETURN epoch;
    END IF;
    SELECT * INTO epoch FROM interlock.lease_epoch e WHERE e.only_row FOR UPDATE;
    IF epoch.timeline <> current THEN
        UPDATE interlock.lease l SET grant_id = NULL WHERE l.grant_id IS NOT NULL;
    END IF;
    UPDATE interlock.lease_epoch e
       SET timeline = current, since = moment, longest_ttl = (SELECT coalesce(max(l.ttl), 0) FROM interlock.lease l)
     WHERE e.only_row AND (e.timeline <> current OR e.since > moment + interval '1 second');
    SELECT * INTO epoch FROM interlock.lease_epoch e WHERE e.only_row;
    RETURN epoch;
END
$$;

-- Make the commit of this transaction wait for the disk, whatever the role or the server sets; never the other way round.
CREATE FUNCTION interlock.durably_v1() RETURNS void
    LANGUAGE plpgsql VOLATILE
    AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
END
$$;

-- True if the transaction commits as durably as one that grants: rows that were read may have been committed on this server
-- alone, by a transaction that did not wait for the synchronous standbys.
CREATE FUNCTION interlock.confirm_v1() RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    AS $$
BEGIN
    PERFORM interlock.durably_v1();
    PERFORM pg_catalog.pg_logical_emit_message(true, 'lease', '');
    RETURN true;
END
$$;

-- Add rows, free, for names that were never leased. Waits for a transaction that is adding the same name, so this is never
-- part of a statement that others depend on. Waits for a sweep as well, which may be raising `token_floor`.
CREATE FUNCTION interlock.register_v1(names text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms'
    AS $$
DECLARE
    bad text := (SELECT n.name FROM unnest(names) AS n (name)
                  WHERE octet_length(n.name) NOT BETWEEN 1 AND 255 OR n.name ~ '[[:cntrl:]]' LIMIT 1);
BEGIN
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = format('%s cannot be the name of a lease', quote_literal(left(bad, 50))),
            HINT = 'Use 1 to 255 bytes without control characters.';
    END IF;
    PERFORM pg_advisory_xact_lock_shared(1229737038, 0);
    INSERT INTO interlock.lease (name, token)
    SELECT DISTINCT n.name COLLATE "C", e.token_floor
      FROM unnest(names) AS n (name), interlock.lease_epoch e
     WHERE e.only_row
     ORDER BY 1
        ON CONFLICT (name) DO NOTHING;
END
$$;

-- Notify the first live waiter of each free lease; dead ones before it are removed. A waiter of `own_listener` is not
-- notified here: the caller does that. Never waits: if the queue's lock is not available, its holder will notify the first
-- waiter, and a locked row is being offered or granted by another transaction.
CREATE FUNCTION interlock.offer_v1(names text[], own_listener integer)
    RETURNS TABLE (name text, grant_id uuid, listener integer)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET enable_material = off SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := interlock.now_v1();
    silent integer[];
    firsts uuid[];
    dates  timestamptz[];
BEGIN
    -- Before PostgreSQL 17, the exclusive holder of the queue's lock cannot share it while others wait for it exclusively.
    names := ARRAY(SELECT n.name FROM unnest(names) AS n (name)
                    WHERE pg_try_advisory_xact_lock_shared(1229737036, interlock.queue_lock_v1(n.name))
                       OR pg_try_advisory_xact_lock(1229737036, interlock.queue_lock_v1(n.name)));
    -- A notified waiter that did not come is disconnected or stopped, and so are all waiters of its listener: they are passed
    -- over together, until they ask again. An empty notification tells them so, in case they receive it.
    SELECT array_agg(DISTINCT f.listener) INTO silent
      FROM unnest(names) AS n (name) JOIN interlock.lease l ON l.name = n.name, LATERAL (
           (SELECT w.listener, w.offered_at FROM interlock.waiter w
             WHERE w.name = n.name AND w.enqueued_at >= interlock.queue_start_v1(l.queue_from, l.token)
             ORDER BY w.enqueued_at, w.grant_id LIMIT 1)
           UNION ALL
           SELECT l.listener, l.acquired_at
            WHERE l.grant_id IS NOT NULL AND l.renewed_at = l.acquired_at AND l.expires_at <= moment) AS f
     WHERE f.offered_at <= moment - interval '1 second' AND f.listener IS NOT NULL;
    IF silent IS NOT NULL THEN
        WITH deaf AS MATERIALIZED (
            SELECT w.grant_id FROM interlock.waiter w
             WHERE w.listener = ANY (silent) AND w.offered_at IS DISTINCT FROM '-infinity' FOR UPDATE OF w SKIP LOCKED
        )
        UPDATE interlock.waiter w SET offered_at = '-infinity' FROM deaf WHERE w.grant_id = deaf.grant_id;
        PERFORM pg_notify('interlock_' || s.listener, '') FROM unnest(silent) AS s (listener);
        WITH unheard AS MATERIALIZED (  -- so that each is notified once
            SELECT l.name FROM interlock.lease l
             WHERE l.name = ANY (names) AND l.listener = ANY (silent) AND l.renewed_at = l.acquired_at
               AND l.expires_at <= moment
             ORDER BY l.name FOR NO KEY UPDATE SKIP LOCKED
        )
        UPDATE interlock.lease l SET listener = NULL FROM unheard WHERE l.name = unheard.name;
    END IF;
    SELECT array_agg(f.grant_id ORDER BY n.place), array_agg(f.enqueued_at ORDER BY n.place) INTO firsts, dates
      FROM unnest(names) WITH ORDINALITY AS n (name, place)
      LEFT JOIN interlock.lease l ON l.name = n.name
      LEFT JOIN LATERAL (
           SELECT w.grant_id, w.enqueued_at FROM interlock.waiter w
            WHERE w.name = n.name AND w.enqueued_at >= interlock.queue_start_v1(l.queue_from, l.token)
              AND interlock.waits_v1(w.listener, w.seen_at, w.offered_at, moment)
            ORDER BY w.enqueued_at, w.grant_id LIMIT 1) AS f ON true;
    WITH dead AS MATERIALIZED (
        SELECT d.grant_id
          FROM unnest(names, dates) AS n (name, first_at) JOIN interlock.lease l ON l.name = n.name, LATERAL (
               SELECT w.grant_id FROM interlock.waiter w
                WHERE w.name = n.name AND w.enqueued_at >= interlock.queue_start_v1(l.queue_from, l.token)
                  AND w.enqueued_at < coalesce(n.first_at, 'infinity')
                  AND NOT interlock.waits_v1(w.listener, w.seen_at, w.offered_at, moment)
                  FOR UPDATE SKIP LOCKED) AS d
    )
    DELETE FROM interlock.waiter w USING dead WHERE w.grant_id = dead.grant_id;
    RETURN QUERY
    WITH ready AS MATERIALIZED (
        SELECT w.grant_id FROM unnest(names, firsts) AS n (name, grant_id)
          JOIN interlock.lease l ON l.name = n.name JOIN interlock.waiter w ON w.grant_id = n.grant_id
         WHERE w.offered_at IS NULL AND l.expires_at <= moment
           FOR UPDATE OF w SKIP LOCKED
    ), offered AS (
        UPDATE interlock.waiter w SET offered_at = moment FROM ready WHERE w.grant_id = ready.grant_id
        RETURNING w.name, w.grant_id, w.listener
    )
    SELECT o.name, o.grant_id, o.listener
      FROM offered o,
           LATERAL (SELECT CASE WHEN o.listener IS NOT NULL AND o.listener IS DISTINCT FROM own_listener
                                THEN pg_notify('interlock_' || o.listener, o.grant_id::text) END OFFSET 0) AS told;
END
$$;

-- Take each lease that is free and not offered to an earlier waiter. A request with a grant_id that holds the lease already
-- gets the same answer again: that repairs a lost reply. With `waits` a request that is not granted is queued.
-- `status`: granted; busy (held, or others are first); locked (free, but an open transaction still guards it, or another
-- transaction is just taking it); changing (ask again at once); unknown (register the name first); held back (the server
-- was just promoted). `retry_after` is the time for the next request if no notification comes before; a waiter without
-- notifications (no listener) has to ask before it expires from the queue.
-- Decides: the row lock, taken only if the row appears free, and on the version that is current when it is taken.
CREATE FUNCTION interlock.acquire_many_v1(
    names text[], grant_ids uuid[], ttls double precision[], metadatas jsonb[], waits boolean[],
    new_holder text, new_host text, new_pid integer, new_listener integer, direct boolean DEFAULT false
) RETURNS TABLE (
    request integer, status text, token bigint, remaining double precision, retry_after double precision, holder text,
    clock double precision
)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET enable_material = off SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    epoch    interlock.lease_epoch := interlock.epoch_v1();
    moment   timestamptz := interlock.now_v1();
    longest  double precision;
    shortest double precision;
    chosen   integer[];
    rows     tid[];  -- a locked row keeps its place, and is found there without the index
    free     text[];
BEGIN
    SELECT greatest(epoch.longest_ttl, max(a.ttl)), min(a.ttl) INTO longest, shortest FROM unnest(ttls) AS a (ttl);
    IF shortest < 0.1 OR longest > 86400 OR array_position(ttls, NULL) > 0 OR array_position(grant_ids, NULL) > 0
       OR cardinality(names) <> cardinality(ttls) OR cardinality(names) <> cardinality(grant_ids) THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'a lease needs a name, a grant_id and a ttl of 0.1 to 86400 seconds';
    END IF;
    IF moment < epoch.since + make_interval(secs => longest) THEN
        RETURN QUERY
        SELECT a.request::integer, 'held back', NULL::bigint, NULL::double precision,
               longest - extract(epoch FROM moment - epoch.since)::double precision, NULL::text, NULL::double precision
          FROM unnest(names) WITH ORDINALITY AS a (name, request);
        RETURN;
    END IF;

    WITH due AS MATERIALIZED (
        SELECT DISTINCT ON (a.name) a.name, a.request
          FROM unnest(names, grant_ids) WITH ORDINALITY AS a (name, grant_id, request)
          JOIN interlock.lease l ON l.name = a.name
         WHERE l.expires_at <= moment
           AND coalesce(a.grant_id = (
                   SELECT w.grant_id FROM interlock.waiter w
                    WHERE w.name = a.name AND w.enqueued_at >= interlock.queue_start_v1(l.queue_from, l.token)
                      AND interlock.waits_v1(w.listener, w.seen_at, w.offered_at, moment)
                    ORDER BY w.enqueued_at, w.grant_id LIMIT 1), true)
         ORDER BY a.name, a.request
    ), locked AS MATERIALIZED (
        SELECT due.request::integer AS request, l.ctid AS row FROM due JOIN interlock.lease l ON l.name = due.name
         WHERE l.expires_at <= moment
         ORDER BY l.name FOR UPDATE OF l SKIP LOCKED
    )
    SELECT array_agg(locked.request), array_agg(locked.row), (SELECT array_agg(due.name) FROM due) INTO chosen, rows, free
      FROM locked;

    IF chosen IS NOT NULL THEN
        PERFORM interlock.durably_v1();
        moment := interlock.now_v1();
        RETURN QUERY
        UPDATE interlock.lease l
           SET token = greatest(l.token + 1, (extract(epoch FROM moment) * 1000000)::bigint),
               grant_id = grant_ids[c.request], holder = new_holder, host = new_host, pid = new_pid,
               listener = NULL, metadata = metadatas[c.request], ttl = ttls[c.request], acquired_at = moment,
               renewed_at = moment, expires_at = moment + make_interval(secs => ttls[c.request])
          FROM unnest(chosen, rows) AS c (request, row)
         WHERE l.ctid = c.row
        RETURNING c.request, 'granted', l.token, ttls[c.request],
                  NULL::double precision, NULL::text, NULL::double precision;
        IF true = ANY (waits) THEN
            DELETE FROM interlock.waiter w USING unnest(chosen) AS c (request) WHERE w.grant_id = grant_ids[c.request];
        END IF;
        IF cardinality(chosen) = cardinality(names) THEN
            RETURN;
        END IF;
    END IF;

    IF true = ANY (waits) THEN
        -- The waiter that the previous holder granted the lease to: now it is known, it holds the lease for its whole ttl.
        WITH heard AS MATERIALIZED (
            SELECT l.name, a.ttl FROM unnest(names, grant_ids, ttls) AS a (name, grant_id, ttl)
              JOIN interlock.lease l ON l.name = a.name
             WHERE l.grant_id = a.grant_id AND l.expires_at > moment
               AND l.listener IS NOT NULL AND l.renewed_at = l.acquired_at
             ORDER BY l.name FOR NO KEY UPDATE OF l SKIP LOCKED
        )
        UPDATE interlock.lease l
           SET listener = NULL, renewed_at = moment, expires_at = moment + make_interval(secs => heard.ttl)
          FROM heard WHERE l.name = heard.name;
        WITH let_in AS MATERIALIZED (
            SELECT a.name, a.grant_id, a.ttl, a.metadata, a.request
              FROM unnest(names, grant_ids, waits, ttls, metadatas) WITH ORDINALITY AS a (name, grant_id, wait, ttl, metadata, request)
              JOIN interlock.lease l ON l.name = a.name
             WHERE a.wait AND a.request <> ALL (coalesce(chosen, '{}'))
               AND NOT (l.expires_at > moment AND l.grant_id IS NOT DISTINCT FROM a.grant_id)
               AND pg_try_advisory_xact_lock_shared(1229737036, interlock.queue_lock_v1(a.name))
        ), afterwards AS MATERIALIZED (
            SELECT interlock.now_v1() AS joined_at FROM (SELECT count(*) FROM let_in) AS counted
        )
        INSERT INTO interlock.waiter AS w (grant_id, name, enqueued_at, listener, seen_at, holder, host, pid, ttl, metadata)
        SELECT DISTINCT ON (a.grant_id) a.grant_id, a.name, t.joined_at + a.request * interval '1 microsecond',
               new_listener, moment, new_holder, new_host, new_pid, CASE WHEN direct THEN a.ttl END, a.metadata
          FROM afterwards AS t, let_in AS a
         ORDER BY a.grant_id, a.request
            ON CONFLICT (grant_id) DO UPDATE
           SET listener = excluded.listener, seen_at = excluded.seen_at, offered_at = NULL
         WHERE w.listener IS NULL OR w.listener IS DISTINCT FROM excluded.listener
            OR w.offered_at <= excluded.seen_at - interval '0.5 seconds' OR w.offered_at IS NOT NULL AND EXISTS (
                   SELECT FROM interlock.lease l WHERE l.name = w.name AND l.expires_at > excluded.seen_at);
        PERFORM interlock.offer_v1(array_agg(a.name), NULL)
           FROM unnest(names, waits) WITH ORDINALITY AS a (name, wait, request) JOIN interlock.lease l ON l.name = a.name
          WHERE a.wait AND l.expires_at <= moment AND a.request <> ALL (coalesce(chosen, '{}'))
         HAVING count(*) > 0;
    END IF;

    -- A clock that was set back would keep a dead holder's lease for that much longer. Compared with the time after the row was
    -- read: compared with an older one, a holder that has just renewed would seem to be ahead.
    WITH ahead AS MATERIALIZED (
        SELECT l.name FROM unnest(names) AS a (name) JOIN interlock.lease l ON l.name = a.name
         WHERE l.expires_at > interlock.now_v1() + make_interval(secs => l.ttl + 1)
         ORDER BY l.name FOR NO KEY UPDATE OF l SKIP LOCKED
    )
    UPDATE interlock.lease l SET expires_at = interlock.now_v1() + make_interval(secs => l.ttl)
      FROM ahead WHERE l.name = ahead.name;

    RETURN QUERY
    SELECT o.request, o.status, CASE WHEN o.status = 'granted' THEN o.token END,
           CASE WHEN o.status = 'granted' AND interlock.confirm_v1() THEN o.remaining END,
           CASE o.status WHEN 'busy' THEN least(CASE WHEN o.remaining > 0 THEN o.remaining ELSE 1 END, o.patience)
                         WHEN 'locked' THEN 0.02 WHEN 'changing' THEN 0.002 WHEN 'unknown' THEN 0 END::double precision,
           CASE WHEN o.remaining > 0 THEN o.holder END, extract(epoch FROM moment)::double precision
      FROM (SELECT a.request::integer AS request, l.token, l.holder,
                   extract(epoch FROM nullif(l.expires_at, '-infinity') - moment)::double precision AS remaining,
                   CASE WHEN l.name IS NULL THEN 'unknown'
                        WHEN l.expires_at > moment AND l.grant_id = a.grant_id THEN
                             CASE WHEN a.wait AND l.listener IS NOT NULL AND l.renewed_at = l.acquired_at THEN 'changing' ELSE 'granted' END
                        WHEN a.wait AND NOT EXISTS (
                             SELECT FROM interlock.waiter w
                              WHERE w.grant_id = a.grant_id AND (w.offered_at IS NULL OR l.expires_at <= moment)) THEN 'changing'
                        WHEN l.expires_at > moment THEN 'busy'
                        WHEN f.grant_id <> a.grant_id THEN 'busy'
                        WHEN a.name = ANY (free) THEN 'locked'
                        ELSE 'changing' END AS status,
                   CASE WHEN a.wait AND new_listener IS NULL THEN 2 END AS patience
              FROM unnest(names, grant_ids, waits) WITH ORDINALITY AS a (name, grant_id, wait, request)
              LEFT JOIN interlock.lease l ON l.name = a.name
              LEFT JOIN LATERAL (
                   SELECT w.grant_id FROM interlock.waiter w
                    WHERE w.name = a.name AND w.enqueued_at >= interlock.queue_start_v1(l.queue_from, l.token)
                      AND interlock.waits_v1(w.listener, w.seen_at, w.offered_at, moment)
                    ORDER BY w.enqueued_at, w.grant_id LIMIT 1) AS f ON l.expires_at <= moment
             WHERE a.request <> ALL (coalesce(chosen, '{}'))) AS o;
END
$$;

-- A grant in 24 bytes, as `renew_many_v1` takes them: a process may hold very many, and parsing a UUID from text takes the
-- server half as long as renewing its lease.
CREATE FUNCTION interlock.grant_v1(token bigint, grant_id uuid) RETURNS bytea
    LANGUAGE sql IMMUTABLE
    AS $$ SELECT pg_catalog.int8send(token) OPERATOR(pg_catalog.||) pg_catalog.uuid_send(grant_id) $$;

-- Extend each lease that is still held: an expired one stays lost, even if nothing has taken it. One row: the requests that
-- were lost; those of them that an operator broke, with the operator and the reason; and those whose row is locked at the
-- moment (ask again).
-- `clock` and `timeline` let the holder notice a clock that was set and a server that was promoted.
-- Mostly no other transaction has any of them locked. Locking them all before they are written would take, and log, half as
-- much again; so they are written at once, and a write that waits for a lock for a millisecond is undone and repeated with
-- locks.
CREATE FUNCTION interlock.renew_many_v1(
    names text[], grants bytea, ttls double precision[],
    OUT lost integer[], OUT locked integer[], OUT clock double precision, OUT timeline integer, OUT broken integer[],
    OUT broken_by text[], OUT broken_why text[]
)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET enable_material = off SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    epoch    interlock.lease_epoch := interlock.epoch_v1();
    moment   timestamptz := interlock.now_v1();
    patience text := current_setting('lock_timeout');
    mine     integer[];
    rows     tid[];
    renewed  integer;
BEGIN
    IF NOT coalesce(0.1 <= ALL (ttls) AND 86400 >= ALL (ttls), false) OR cardinality(names) <> cardinality(ttls) THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'the ttl of a lease has to be between 0.1 and 86400 seconds';
    END IF;
    IF 24 * cardinality(names) IS DISTINCT FROM length(grants) THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a grant has to be 24 bytes, as interlock.grant_v1() makes them';
    END IF;
    clock := extract(epoch FROM moment);
    timeline := epoch.timeline;
    PERFORM interlock.durably_v1();
    BEGIN
        PERFORM set_config('lock_timeout', '1ms', true);
        UPDATE interlock.lease l
           SET expires_at = moment + make_interval(secs => ttls[a.request]), renewed_at = moment, ttl = ttls[a.request]
          FROM unnest(names) WITH ORDINALITY AS a (name, request)
         WHERE l.name = a.name AND l.expires_at > moment
           AND interlock.grant_v1(l.token, l.grant_id) = substring(grants, 24 * a.request::integer - 23, 24);
        GET DIAGNOSTICS renewed = ROW_COUNT;
        PERFORM set_config('lock_timeout', patience, true);
    EXCEPTION WHEN lock_not_available THEN  -- another transaction has locked one of them: all others first
        SELECT array_agg(held.request), array_agg(held.row) INTO mine, rows
          FROM (SELECT a.request::integer AS request, l.ctid AS row
                  FROM unnest(names) WITH ORDINALITY AS a (name, request)
                  JOIN interlock.lease l ON l.name = a.name
                 WHERE l.expires_at > moment
                   AND interlock.grant_v1(l.token, l.grant_id) = substring(grants, 24 * a.request::integer - 23, 24)
                 ORDER BY l.name FOR NO KEY UPDATE OF l SKIP LOCKED) AS held;
        moment := interlock.now_v1();
        UPDATE interlock.lease l
           SET expires_at = moment + make_interval(secs => ttls[m.request]), renewed_at = moment, ttl = ttls[m.request]
          FROM unnest(mine, rows) AS m (request, row)
         WHERE l.ctid = m.row;
        GET DIAGNOSTICS renewed = ROW_COUNT;
        IF renewed <> cardinality(mine) THEN  -- never observed; a lease that was not written must not be trusted
            RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = 'a lease that was locked has moved: renew again';
        END IF;
    END;
    IF renewed = cardinality(names) THEN
        RETURN;
    END IF;
    SELECT array_agg(o.request) FILTER (WHERE NOT o.held), array_agg(o.request) FILTER (WHERE o.held) INTO lost, locked
      FROM (SELECT a.request::integer AS request, l.name IS NOT NULL AS held
              FROM unnest(names) WITH ORDINALITY AS a (name, request)
              LEFT JOIN interlock.lease l
                ON l.name = a.name AND l.expires_at > moment
               AND interlock.grant_v1(l.token, l.grant_id) = substring(grants, 24 * a.request::integer - 23, 24)
             WHERE l.renewed_at IS DISTINCT FROM moment) AS o;
    SELECT array_agg(o.request), array_agg(i.done_by), array_agg(i.reason) INTO broken, broken_by, broken_why
      FROM unnest(lost) AS o (request) JOIN interlock.lease_intervention i
        ON i.name = names[o.request] AND interlock.grant_v1(i.token, i.grant_id) = substring(grants, 24 * o.request - 23, 24);
END
$$;

-- Broken → free, before it expires: its holder releases it, so it has stopped. True if that was so. The lease's row does not
-- name the grant any more, its record in `lease_intervention` does. The caller has the queue's lock exclusively.
CREATE FUNCTION interlock.end_broken_v1(lease_name text, lease_token bigint, lease_grant uuid) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
    AS $$
BEGIN
    UPDATE interlock.lease l SET expires_at = '-infinity'
     WHERE l.name = lease_name AND l.token = lease_token AND l.grant_id IS NULL AND l.expires_at > interlock.now_v1()
       AND EXISTS (SELECT FROM interlock.lease_intervention i
                    WHERE i.name = lease_name AND i.token = lease_token AND i.grant_id = lease_grant);
    RETURN FOUND;
END
$$;

-- Free each lease that the named grant holds, and notify the first waiter in its queue, whose grant_id is `offered`. With
-- `if_waited` only those that have waiters. `status`: released, lost (that grant holds nothing any more), locked (ask
-- again), kept (no waiters). A grant whose lease was broken is lost, and its release frees the lease: its holder has
-- stopped. Never waits for a transaction that guards the lease: it changes no key.
CREATE FUNCTION interlock.release_many_v1(
    names text[], tokens bigint[], grant_ids uuid[], own_listener integer, if_waited boolean
) RETURNS TABLE (request integer, status text, offered uuid, elsewhere boolean)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms'
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET enable_material = off SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    moment  timestamptz := interlock.now_v1();
    freed   integer[];
    rows    tid[];
    stopped integer[];
BEGIN
    PERFORM pg_advisory_xact_lock(1229737036, q.bucket)
       FROM (SELECT DISTINCT interlock.queue_lock_v1(n.name) AS bucket FROM unnest(names) AS n (name) ORDER BY 1) AS q;
    SELECT array_agg(held.request), array_agg(held.row) INTO freed, rows
      FROM (SELECT a.request::integer AS request, l.ctid AS row
              FROM unnest(names, tokens, grant_ids) WITH ORDINALITY AS a (name, token, grant_id, request)
              JOIN interlock.lease l ON l.name = a.name
             WHERE l.token = a.token AND l.grant_id = a.grant_id
               AND (NOT if_waited OR EXISTS (
                       SELECT FROM interlock.waiter w
                        WHERE w.name = a.name AND w.enqueued_at >= interlock.queue_start_v1(l.queue_from, l.token)
                          AND interlock.waits_v1(w.listener, w.seen_at, w.offered_at, moment)))
             ORDER BY l.name FOR NO KEY UPDATE OF l SKIP LOCKED) AS held;
    IF freed IS NOT NULL THEN
        UPDATE interlock.lease l
           SET grant_id = NULL, expires_at = '-infinity'
          FROM unnest(rows) AS f (row)
         WHERE l.ctid = f.row;
        IF EXISTS (SELECT FROM unnest(freed) AS f (request) JOIN interlock.lease l ON l.name = names[f.request], LATERAL (
                       SELECT FROM interlock.waiter w
                        WHERE w.name = l.name AND w.enqueued_at >= interlock.queue_start_v1(l.queue_from, l.token) LIMIT 1) AS w) THEN
            DELETE FROM interlock.waiter w WHERE w.grant_id = ANY (grant_ids);  -- as in `release_v1`
            RETURN QUERY
            SELECT f.request, 'released', o.grant_id, o.listener IS DISTINCT FROM own_listener
              FROM unnest(freed) AS f (request)
              LEFT JOIN interlock.offer_v1((SELECT array_agg(names[r.request]) FROM unnest(freed) AS r (request)),
                                           own_listener) AS o ON o.name = names[f.request];
        ELSE
            RETURN QUERY SELECT f.request, 'released', NULL::uuid, false FROM unnest(freed) AS f (request);
        END IF;
        IF cardinality(freed) = cardinality(names) THEN
            RETURN;
        END IF;
    END IF;
    IF NOT if_waited THEN
        SELECT array_agg(a.request::integer) INTO stopped
          FROM unnest(names, tokens, grant_ids) WITH ORDINALITY AS a (name, token, grant_id, request)
         WHERE CASE WHEN a.request <> ALL (coalesce(freed, '{}')) THEN interlock.end_broken_v1(a.name, a.token, a.grant_id) END;
    END IF;
    RETURN QUERY
    SELECT a.request::integer,
           CASE WHEN l.name IS NULL THEN 'lost'
                WHEN if_waited AND NOT EXISTS (
                       SELECT FROM interlock.waiter w
                        WHERE w.name = a.name AND w.enqueued_at >= interlock.queue_start_v1(l.queue_from, l.token)
                          AND interlock.waits_v1(w.listener, w.seen_at, w.offered_at, moment)) THEN 'kept'
                ELSE 'locked' END, o.grant_id, o.grant_id IS NOT NULL AND o.listener IS DISTINCT FROM own_listener
      FROM unnest(names, tokens, grant_ids) WITH ORDINALITY AS a (name, token, grant_id, request)
      LEFT JOIN interlock.lease l ON l.name = a.name AND l.token = a.token AND l.grant_id = a.grant_id
      LEFT JOIN interlock.offer_v1(ARRAY(SELECT names[s.request] FROM unnest(stopped) AS s (request)), own_listener) AS o
        ON o.name = a.name AND a.request = ANY (stopped)
     WHERE a.request <> ALL (coalesce(freed, '{}'));
END
$$;

-- Leave the queue; an offer, or a grant by a hand-over that was not received yet, goes to the next waiter.
CREATE FUNCTION interlock.abandon_many_v1(names text[], grant_ids uuid[], own_listener integer)
    RETURNS TABLE (name text, grant_id uuid, listener integer)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms'
    SET enable_seqscan = off
    AS $$
#variable_conflict use_column
DECLARE
    passed_on text[];
    freed     text[];
BEGIN
    PERFORM pg_advisory_xact_lock(1229737036, q.bucket)
       FROM (SELECT DISTINCT interlock.queue_lock_v1(n.name) AS bucket FROM unnest(names) AS n (name) ORDER BY 1) AS q;
    WITH leaving AS MATERIALIZED (
        SELECT w.grant_id FROM interlock.waiter w WHERE w.grant_id = ANY (grant_ids) FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM interlock.waiter w USING leaving WHERE w.grant_id = leaving.grant_id RETURNING w.name, w.offered_at
    )
    SELECT array_agg(DISTINCT gone.name) INTO passed_on FROM gone WHERE gone.offered_at IS NOT NULL;
    WITH unheard AS MATERIALIZED (
        SELECT l.name FROM unnest(names, grant_ids) AS a (name, grant_id) JOIN interlock.lease l ON l.name = a.name
         WHERE l.grant_id = a.grant_id AND l.listener IS NOT NULL AND l.renewed_at = l.acquired_at
         ORDER BY l.name FOR NO KEY UPDATE OF l SKIP LOCKED
    ), freed AS (
        UPDATE interlock.lease l SET grant_id = NULL, expires_at = '-infinity' FROM unheard WHERE l.name = unheard.name
        RETURNING l.name
    )
    SELECT array_agg(freed.name) INTO freed FROM freed;
    IF passed_on IS NOT NULL OR freed IS NOT NULL THEN
        RETURN QUERY SELECT o.name, o.grant_id, o.listener FROM interlock.offer_v1(passed_on || freed, own_listener) AS o;
    END IF;
END
$$;

-- True if the lock in a row's xmax is this transaction's own, and not that of a subtransaction, which a rollback to a
-- savepoint undoes. Several lockers share a group number, which cannot be distinguished from a transaction's number.
CREATE FUNCTION interlock.locked_here_v1(locker xid) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
    AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pg_get_multixact_members(locker) AS m WHERE m.xid = pg_current_xact_id()::xid);
EXCEPTION WHEN OTHERS THEN
    RETURN false;
END
$$;

-- Inside a user's transaction: it commits only while the grant is current, and a process that wants the lease next waits for
-- it. FOR KEY SHARE lets the holder's renewals and its release pass; a change of the token locks FOR UPDATE first, so it
-- waits. Expiry counts if the row is read in its current version; with an older snapshot, token and grant_id decide.
-- A lock taken after a savepoint would be gone after a rollback to it, so there it is refused, unless the transaction has
-- taken it before the savepoint as well.
CREATE FUNCTION interlock.guard_v1(lease_name text, lease_token bigint, lease_grant uuid) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
    AS $$
DECLARE
    until  timestamptz;
    length double precision;
    locker xid;
    parts  xid[];
    done   text;  -- an assignment costs a tenth of PERFORM
BEGIN
    SELECT l.expires_at, l.ttl INTO until, length FROM interlock.lease l
     WHERE l.name = lease_name AND l.token = lease_token AND l.grant_id = lease_grant FOR KEY SHARE;
    IF NOT FOUND OR (left(current_setting('transaction_isolation'), 4) = 'read' AND until <= interlock.now_v1()) THEN
        RAISE EXCEPTION USING ERRCODE = 'IL001',
            MESSAGE = format('the lease %s is not held by the grant with token %s any more', quote_literal(lease_name), lease_token),
            HINT = 'Roll back: another process may hold it now.';
    END IF;
    SELECT l.xmax INTO locker FROM interlock.lease l WHERE l.name = lease_name;
    -- A subtransaction has a higher number than its transaction, so a lower one is that of a group: check its members.
    IF locker <> pg_current_xact_id()::xid
       AND NOT (age(locker) > age(pg_current_xact_id()::xid) AND interlock.locked_here_v1(locker)) THEN
        parts := ARRAY(
            SELECT k.transactionid FROM pg_locks k
             WHERE k.pid = pg_backend_pid() AND k.locktype = 'transactionid' AND k.mode = 'ExclusiveLock' AND k.granted
               AND k.transactionid <> pg_current_xact_id()::xid);
        IF locker = ANY (parts) OR (cardinality(parts) > 0 AND NOT interlock.locked_here_v1(locker)) THEN
            RAISE EXCEPTION USING ERRCODE = 'IL003',
                MESSAGE = format('the guard of the lease %s stands after a savepoint', quote_literal(lease_name)),
                HINT = 'Call the guard before the savepoint (the nested transaction): a rollback to it would undo the guard.';
        END IF;
    END IF;
    IF current_setting('client_connection_check_interval') = '0' AND version() LIKE '%linux%' THEN
        done := set_config('client_connection_check_interval', '1s', true);
    END IF;
    IF current_setting('idle_in_transaction_session_timeout') = '0' THEN
        done := set_config('idle_in_transaction_session_timeout', (greatest(2 * length, 10) * 1000)::bigint::text, true);
    END IF;
    done := set_config('interlock_guard.carried', (
        coalesce(nullif(current_setting('interlock_guard.carried', true), ''), '{}')::jsonb
        || jsonb_build_object(lease_name, jsonb_build_array(lease_token, lease_grant)))::text, true);
END
$$;

-- The trigger function behind `protect_v1`: at COMMIT the transaction has to carry the guard of that lease. `guard_v1` leaves
-- the guarded grant in a setting of the transaction; any client can set that, so the row decides: it is locked here as
-- `guard_v1` locks it. A lock from the time the lease was held stays valid to the end, also if the holder has released it
-- meanwhile. After SET CONSTRAINTS IMMEDIATE, a rollback to an earlier savepoint undoes the lock, and the trigger is called
-- again at COMMIT. It runs for every row, so the usual case is one statement; it checks expiry, or a late lock would pass
-- for an early one.
CREATE FUNCTION interlock.guarded_v1() RETURNS trigger
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
    AS $$
DECLARE
    guard  jsonb := nullif(current_setting('interlock_guard.carried', true), '')::jsonb -> TG_ARGV[0];
    locker xid;
BEGIN
    PERFORM FROM interlock.lease l
      WHERE l.name = TG_ARGV[0] AND l.token = (guard ->> 0)::bigint AND l.grant_id = (guard ->> 1)::uuid
        AND (l.expires_at > interlock.now_v1() OR left(current_setting('transaction_isolation'), 4) <> 'read')
        FOR KEY SHARE;
    IF FOUND THEN
        RETURN NULL;
    ELSIF guard IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'IL002',
            MESSAGE = format('%s may only be written under the lease %s', TG_RELID::regclass, quote_literal(TG_ARGV[0])),
            HINT = 'Call the guard of that lease in the same transaction.';
    END IF;
    SELECT l.xmax INTO locker FROM interlock.lease l
     WHERE l.name = TG_ARGV[0] AND l.token = (guard ->> 0)::bigint AND (l.grant_id IS NULL OR l.grant_id = (guard ->> 1)::uuid);
    IF coalesce(locker <> pg_current_xact_id()::xid AND NOT interlock.locked_here_v1(locker), true) THEN
        PERFORM interlock.guard_v1(TG_ARGV[0], (guard ->> 0)::bigint, (guard ->> 1)::uuid);
    END IF;
    RETURN NULL;
END
$$;

-- From now on only transactions that carry the lease's guard can write rows of that table.
CREATE FUNCTION interlock.protect_v1(protected regclass, lease_name text) RETURNS void
    LANGUAGE plpgsql VOLATILE
    AS $$
BEGIN
    EXECUTE format('CREATE CONSTRAINT TRIGGER interlock_guard AFTER INSERT OR UPDATE OR DELETE ON %s '
                   'DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION interlock.guarded_v1(%L)', protected, lease_name);
END
$$;

-- The server processes whose open transactions guard that lease.
CREATE FUNCTION interlock.guards_v1(lease_name text) RETURNS TABLE (pid integer)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    locker  xid;
    lockers xid[];
BEGIN
    SELECT l.xmax INTO locker FROM interlock.lease l WHERE l.name = lease_name;
    lockers := ARRAY[locker];
    BEGIN  -- a transaction's number cannot be distinguished from that of a group
        lockers := lockers || ARRAY(SELECT m.xid FROM pg_get_multixact_members(locker) AS m);
    EXCEPTION WHEN OTHERS THEN
        NULL;
    END;
    RETURN QUERY
    SELECT DISTINCT k.pid FROM pg_locks k
     WHERE k.locktype = 'transactionid' AND k.mode = 'ExclusiveLock' AND k.granted
       AND k.transactionid = ANY (lockers) AND k.pid <> pg_backend_pid()
       AND EXISTS (SELECT FROM pg_locks t
                    WHERE t.pid = k.pid AND t.relation = 'interlock.lease'::regclass AND t.mode = 'RowShareLock');
END
$$;

-- Take a lease from its holder. The holder is notified at its next renewal, and stops. Until the lease expires for it, or
-- until it releases the lease, no other process gets it, unless `immediate` says that this does not matter.
CREATE FUNCTION interlock.break_v1(lease_name text, immediate boolean, terminate boolean, why text, by_whom text)
    RETURNS TABLE (token bigint, holder text, host text, pid integer, remaining double precision, terminated integer[])
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '2s'
    AS $$
#variable_conflict use_column
DECLARE
    lease  interlock.lease;
    ended  integer[] := '{}';
    moment timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(1229737036, interlock.queue_lock_v1(lease_name));
    SELECT * INTO lease FROM interlock.lease l WHERE l.name = lease_name FOR NO KEY UPDATE;
    moment := interlock.now_v1();
    IF lease.name IS NULL
       OR (NOT terminate AND (lease.expires_at <= moment OR (lease.grant_id IS NULL AND NOT immediate))) THEN
        RETURN;
    END IF;
    PERFORM interlock.durably_v1();
    IF terminate THEN
        SELECT coalesce(array_agg(g.pid), '{}') INTO ended FROM interlock.guards_v1(lease_name) AS g WHERE pg_terminate_backend(g.pid);
    END IF;
    UPDATE interlock.lease l
       SET grant_id = NULL, expires_at = CASE WHEN immediate THEN '-infinity' ELSE l.expires_at END
     WHERE l.name = lease_name;
    INSERT INTO interlock.lease_intervention (name, token, holder, host, pid, immediate, terminated, reason, done_by, done_at,
                                              grant_id)
    VALUES (lease_name, lease.token, lease.holder, lease.host, lease.pid, immediate, ended, why, by_whom, moment,
            lease.grant_id);
    IF immediate THEN
        PERFORM interlock.offer_v1(ARRAY[lease_name], NULL);
    END IF;
    RETURN QUERY SELECT lease.token, lease.holder, lease.host, lease.pid,
        CASE WHEN immediate THEN 0
             ELSE greatest(0, extract(epoch FROM nullif(lease.expires_at, '-infinity') - moment)) END::double precision, ended;
END
$$;

-- All leases, for operators. The grant_id is not shown: a client that knows it can act as the holder.
CREATE FUNCTION interlock.leases_v1(only_name text DEFAULT NULL)
    RETURNS TABLE (name text, token bigint, held boolean, broken boolean, holder text, host text, pid integer, metadata jsonb,
                   ttl double precision, acquired_at timestamptz, renewed_at timestamptz, expires_at timestamptz,
                   remaining double precision, waiters bigint)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT l.name, l.token, l.grant_id IS NOT NULL AND l.expires_at > m.moment, l.grant_id IS NULL AND l.expires_at > m.moment,
           l.holder, l.host, l.pid, l.metadata, l.ttl, l.acquired_at, l.renewed_at, nullif(l.expires_at, '-infinity'),
           greatest(0, extract(epoch FROM nullif(l.expires_at, '-infinity') - m.moment))::double precision,
           (SELECT count(*) FROM interlock.waiter w
             WHERE w.name = l.name AND interlock.waits_v1(w.listener, w.seen_at, w.offered_at, m.moment))
      FROM (SELECT interlock.now_v1() AS moment OFFSET 0) AS m, interlock.lease l
     WHERE only_name IS NULL OR l.name = only_name
     ORDER BY l.name
    $$;

-- The waiters for that lease, in order.
CREATE FUNCTION interlock.waiters_v1(lease_name text)
    RETURNS TABLE (holder text, host text, pid integer, enqueued_at timestamptz, waited double precision)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT w.holder, w.host, w.pid, w.enqueued_at, extract(epoch FROM m.moment - w.enqueued_at)::double precision
      FROM (SELECT interlock.now_v1() AS moment OFFSET 0) AS m, interlock.waiter w
     WHERE w.name = lease_name AND interlock.waits_v1(w.listener, w.seen_at, w.offered_at, m.moment)
     ORDER BY w.enqueued_at, w.grant_id
    $$;

-- Delete leases that were not used for so long, a thousand rows at a time, and dead waiters. One sweeper at a time; -1:
-- another one is running. The highest token is kept, so that the tokens of a name that comes back are greater.
CREATE FUNCTION interlock.sweep_v1(unused_for double precision) RETURNS integer
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    moment  timestamptz := interlock.now_v1();
    swept   integer;
    highest bigint;
    called  text[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(1229737038, 0) THEN
        RETURN -1;
    END IF;
    WITH idle AS MATERIALIZED (
        SELECT l.name FROM interlock.lease l
         WHERE l.expires_at <= moment AND coalesce(l.renewed_at, '-infinity') < moment - make_interval(secs => unused_for)
           AND NOT EXISTS (SELECT FROM interlock.waiter w WHERE w.name = l.name)
         LIMIT 1000 FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM interlock.lease l USING idle WHERE l.name = idle.name RETURNING l.token
    )
    SELECT count(*), max(gone.token) INTO swept, highest FROM gone;
    IF swept > 0 THEN
        UPDATE interlock.lease_epoch e SET token_floor = greatest(e.token_floor, highest);
    END IF;
    WITH dead AS MATERIALIZED (
        SELECT w.grant_id FROM interlock.waiter w
         WHERE NOT interlock.waits_v1(w.listener, w.seen_at, NULL, moment) FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM interlock.waiter w USING dead WHERE w.grant_id = dead.grant_id RETURNING w.name, w.offered_at
    )
    SELECT array_agg(DISTINCT gone.name) INTO called FROM gone WHERE gone.offered_at IS NOT NULL;
    IF called IS NOT NULL THEN  -- a dead waiter does not come: the next one is notified
        PERFORM interlock.offer_v1(called, NULL);
    END IF;
    RETURN swept;
END
$$;

-- The same for one lease and any language, at a third of the cost. Call these outside a transaction of your own: their locks
-- and notifications take effect only at COMMIT.
-- A row's old versions stay for as long as an older snapshot is open, and its newest version is the last in the index. So
-- these functions search a name from the end, with BETWEEN: after `=` the index would be read from the beginning.
CREATE FUNCTION interlock.acquire_v1(
    name text, grant_id uuid, ttl double precision, holder text, metadata jsonb DEFAULT NULL, wait boolean DEFAULT false,
    host text DEFAULT NULL, pid integer DEFAULT NULL, listener integer DEFAULT NULL, direct boolean DEFAULT false,
    OUT status text, OUT token bigint, OUT remaining double precision, OUT retry_after double precision, OUT held_by text,
    OUT clock double precision
)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := interlock.now_v1();
    place  tid;  -- a locked row keeps its place, and is found there without reading all its versions again
    until  timestamptz;
    done   text;  -- an assignment costs a tenth of PERFORM
BEGIN
    IF acquire_v1.name IS NULL OR acquire_v1.grant_id IS NULL OR NOT coalesce(acquire_v1.ttl BETWEEN 0.1 AND 86400, false) THEN
        RAISE EXCEPTION USING ERRCODE = '22023',
            MESSAGE = 'a lease needs a name, a grant_id and a ttl of 0.1 to 86400 seconds';
    END IF;
    SELECT l.ctid INTO place FROM interlock.lease l, interlock.lease_epoch e
     WHERE l.ctid = (SELECT v.ctid FROM interlock.lease v
                      WHERE v.name BETWEEN acquire_v1.name AND acquire_v1.name ORDER BY v.name DESC LIMIT 1)
       AND l.expires_at <= moment AND e.only_row AND e.timeline = interlock.timeline_v1()
       AND e.since <= moment - make_interval(secs => greatest(e.longest_ttl, acquire_v1.ttl))
       AND coalesce(acquire_v1.grant_id = (
               SELECT w.grant_id FROM interlock.waiter w
                WHERE w.name = acquire_v1.name AND w.enqueued_at >= interlock.queue_start_v1(l.queue_from, l.token)
                  AND interlock.waits_v1(w.listener, w.seen_at, w.offered_at, moment)
                ORDER BY w.enqueued_at, w.grant_id LIMIT 1), true)
       FOR UPDATE OF l SKIP LOCKED;
    IF FOUND THEN
        done := interlock.durably_v1();
        moment := interlock.now_v1();
        UPDATE interlock.lease l
           SET token = greatest(l.token + 1, (extract(epoch FROM moment) * 1000000)::bigint),
               grant_id = acquire_v1.grant_id, holder = acquire_v1.holder, host = acquire_v1.host, pid = acquire_v1.pid,
               listener = NULL, metadata = acquire_v1.metadata, ttl = acquire_v1.ttl, acquired_at = moment, renewed_at = moment,
               expires_at = moment + make_interval(secs => acquire_v1.ttl)
         WHERE l.ctid = place
        RETURNING 'granted', l.token, l.ttl INTO status, token, remaining;
        IF wait THEN
            DELETE FROM interlock.waiter w WHERE w.grant_id = acquire_v1.grant_id;
        END IF;
        RETURN;
    END IF;
    SELECT l.ctid, l.expires_at, l.holder, extract(epoch FROM l.expires_at - moment)
      INTO place, until, held_by, retry_after
      FROM interlock.lease l, interlock.lease_epoch e
     WHERE l.ctid = (SELECT v.ctid FROM interlock.lease v
                      WHERE v.name BETWEEN acquire_v1.name AND acquire_v1.name ORDER BY v.name DESC LIMIT 1)
       AND l.grant_id IS DISTINCT FROM acquire_v1.grant_id
       AND l.expires_at > moment AND l.expires_at <= moment + make_interval(secs => l.ttl + 1)
       AND e.only_row AND e.timeline = interlock.timeline_v1()
       AND e.since <= moment - make_interval(secs => greatest(e.longest_ttl, acquire_v1.ttl));
    IF FOUND AND wait IS NOT TRUE THEN
        status := 'busy';
        RETURN;
    END IF;
    IF FOUND AND pg_try_advisory_xact_lock_shared(1229737036, interlock.queue_lock_v1(acquire_v1.name)) THEN
        INSERT INTO interlock.waiter AS w (grant_id, name, enqueued_at, listener, seen_at, holder, host, pid, ttl, metadata)
        VALUES (acquire_v1.grant_id, acquire_v1.name, interlock.now_v1(), acquire_v1.listener, moment, acquire_v1.holder,
                acquire_v1.host, acquire_v1.pid, CASE WHEN direct THEN acquire_v1.ttl END, acquire_v1.metadata)
            ON CONFLICT (grant_id) DO UPDATE
           SET listener = excluded.listener, seen_at = excluded.seen_at, offered_at = NULL
         WHERE w.listener IS NULL OR w.listener IS DISTINCT FROM excluded.listener OR w.offered_at IS NOT NULL;
        IF EXISTS (SELECT FROM interlock.lease l
                    WHERE l.ctid = place AND l.name = acquire_v1.name AND l.expires_at = until) THEN
            status := 'busy';
            clock := extract(epoch FROM moment);
            retry_after := CASE WHEN acquire_v1.listener IS NULL THEN least(retry_after, 2) ELSE retry_after END;
            RETURN;
        END IF;
    END IF;
    FOR attempt IN 1..2 LOOP
        SELECT a.status, a.token, a.remaining, a.retry_after, a.holder, a.clock
          INTO status, token, remaining, retry_after, held_by, clock
          FROM interlock.acquire_many_v1(
                   ARRAY[acquire_v1.name], ARRAY[acquire_v1.grant_id], ARRAY[acquire_v1.ttl], ARRAY[acquire_v1.metadata],
                   ARRAY[acquire_v1.wait], acquire_v1.holder, acquire_v1.host, acquire_v1.pid, acquire_v1.listener, direct) AS a;
        EXIT WHEN status <> 'unknown';
        PERFORM interlock.register_v1(ARRAY[acquire_v1.name]);
    END LOOP;
END
$$;

CREATE FUNCTION interlock.renew_v1(name text, token bigint, grant_id uuid, ttl double precision, OUT status text, OUT remaining double precision)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    answer record;
BEGIN
    SELECT * INTO answer FROM interlock.renew_many_v1(ARRAY[name], interlock.grant_v1(token, grant_id), ARRAY[ttl]);
    status := CASE WHEN answer.lost IS NOT NULL THEN 'lost' WHEN answer.locked IS NOT NULL THEN 'locked' ELSE 'renewed' END;
    remaining := CASE status WHEN 'renewed' THEN ttl END;
END
$$;

-- With `direct`, the first waiter in the queue is granted the lease in the same transaction, if that is possible and it is
-- known to be alive: `next_token` and `next_until` (by the database's clock) are that grant's, which ends after a second
-- unless the waiter renews it. The waiter was not notified yet: `hand_on_v1` does that.
CREATE FUNCTION interlock.release_v1(
    name text, token bigint, grant_id uuid, listener integer DEFAULT NULL, direct boolean DEFAULT false,
    OUT status text, OUT offered uuid, OUT elsewhere boolean,
    OUT ear integer, OUT next_token bigint, OUT next_until double precision
)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '200ms'
    SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := interlock.now_v1();
    place  tid;
    start  timestamptz;
    first  interlock.waiter;
    done   text;  -- an assignment costs a tenth of PERFORM
BEGIN
    done := pg_advisory_xact_lock(1229737036, interlock.queue_lock_v1(release_v1.name));
    SELECT l.ctid, interlock.queue_start_v1(l.queue_from, l.token) INTO place, start FROM interlock.lease l
     WHERE l.name BETWEEN release_v1.name AND release_v1.name AND l.token = release_v1.token AND l.grant_id = release_v1.grant_id
     ORDER BY l.name DESC LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        DELETE FROM interlock.waiter w WHERE w.grant_id = (
            SELECT v.grant_id FROM interlock.waiter v
             WHERE v.grant_id = release_v1.grant_id AND v.name = release_v1.name FOR UPDATE SKIP LOCKED);
        status := CASE WHEN EXISTS (
            SELECT FROM interlock.lease l
             WHERE l.name = release_v1.name AND l.token = release_v1.token AND l.grant_id = release_v1.grant_id)
            THEN 'locked' ELSE 'lost' END;
        IF status = 'lost' AND interlock.end_broken_v1(release_v1.name, release_v1.token, release_v1.grant_id) THEN
            SELECT o.grant_id, o.listener, o.listener IS DISTINCT FROM release_v1.listener INTO offered, ear, elsewhere
              FROM interlock.offer_v1(ARRAY[release_v1.name], release_v1.listener) AS o;
        END IF;
        RETURN;
    END IF;
    FOR attempt IN 1..2 LOOP
        SELECT * INTO first FROM interlock.waiter w
         WHERE w.name = release_v1.name AND w.enqueued_at >= start
         ORDER BY w.enqueued_at, w.grant_id LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN first.grant_id IS DISTINCT FROM release_v1.grant_id;
        DELETE FROM interlock.waiter w WHERE w.grant_id = first.grant_id;
    END LOOP;
    IF direct AND first.ttl > 0 AND first.offered_at IS NULL AND first.listener IS NOT NULL
       AND interlock.waits_v1(first.listener, first.seen_at, NULL, moment) THEN
        PERFORM FROM interlock.lease l, interlock.lease_epoch e
          WHERE l.ctid = place AND e.only_row AND e.timeline = interlock.timeline_v1()
            AND e.since <= moment - make_interval(secs => greatest(e.longest_ttl, first.ttl))
            FOR UPDATE OF l SKIP LOCKED;
        IF FOUND THEN  -- so no transaction guards it
            done := interlock.durably_v1();
            moment := interlock.now_v1();
            UPDATE interlock.lease l
               SET token = greatest(l.token + 1, (extract(epoch FROM moment) * 1000000)::bigint),
                   grant_id = first.grant_id, holder = first.holder, host = first.host, pid = first.pid,
                   listener = first.listener, metadata = first.metadata, ttl = first.ttl, acquired_at = moment,
                   renewed_at = moment, expires_at = moment + make_interval(secs => least(first.ttl, 1)),
                   queue_from = least(first.enqueued_at, moment)
             WHERE l.ctid = place
            RETURNING 'released', l.grant_id, l.listener, l.listener IS DISTINCT FROM release_v1.listener, l.token,
                      extract(epoch FROM l.expires_at)
                 INTO status, offered, ear, elsewhere, next_token, next_until;
            DELETE FROM interlock.waiter w WHERE w.grant_id IN (first.grant_id, release_v1.grant_id);
            RETURN;
        END IF;
    END IF;
    IF first.grant_id IS NOT NULL THEN
        DELETE FROM interlock.waiter w WHERE w.grant_id = release_v1.grant_id;
    END IF;
    UPDATE interlock.lease l
       SET grant_id = NULL, expires_at = '-infinity',
           queue_from = least(coalesce(first.enqueued_at, l.queue_from), moment)
     WHERE l.ctid = place
    RETURNING interlock.queue_start_v1(l.queue_from, l.token) INTO start;
    status := 'released';
    IF first.grant_id IS NULL
       AND NOT EXISTS (SELECT FROM interlock.waiter w WHERE w.name = release_v1.name AND w.enqueued_at >= start) THEN
        RETURN;
    END IF;
    -- Mostly the first waiter is still waiting: then this is all that `offer_v1` would do.
    UPDATE interlock.waiter w SET offered_at = moment
     WHERE w.grant_id = first.grant_id AND w.offered_at IS NULL
       AND interlock.waits_v1(w.listener, w.seen_at, w.offered_at, moment)
    RETURNING w.grant_id, w.listener INTO offered, ear;
    IF NOT FOUND THEN
        SELECT o.grant_id, o.listener INTO offered, ear
          FROM interlock.offer_v1(ARRAY[release_v1.name], release_v1.listener) AS o;
    ELSIF ear IS NOT NULL AND ear IS DISTINCT FROM release_v1.listener THEN
        done := pg_notify('interlock_' || ear, offered::text);
    END IF;
    elsewhere := ear IS DISTINCT FROM release_v1.listener;
END
$$;

-- Release, and grant the lease to the first waiter, which is notified once the grant is on the disk: by a commit of its own,
-- because a notifying transaction keeps all others on the server from notifying until its commit is done. Without a waiter
-- nothing waits for the disk. Not to be called within a transaction.
CREATE PROCEDURE interlock.hand_on_v1(
    name text, token bigint, grant_id uuid, listener integer,
    INOUT status text DEFAULT NULL, INOUT offered uuid DEFAULT NULL, INOUT elsewhere boolean DEFAULT NULL,
    INOUT next_token bigint DEFAULT NULL, INOUT next_until double precision DEFAULT NULL
)
    LANGUAGE plpgsql
    AS $$
DECLARE
    came record;
    done text;
BEGIN
    came := interlock.release_v1(name, token, grant_id, listener, true);
    status := came.status;
    offered := came.offered;
    elsewhere := came.elsewhere;
    next_token := came.next_token;
    next_until := came.next_until;
    IF next_token IS NOT NULL THEN
        COMMIT;
    END IF;
    done := pg_catalog.set_config('synchronous_commit', 'off', true);
    IF elsewhere AND next_token IS NOT NULL THEN
        done := pg_catalog.pg_notify(pg_catalog.concat('interlock_', came.ear),
                                     pg_catalog.concat_ws(' ', offered, next_token, next_until));
    END IF;
END
$$;

CREATE FUNCTION interlock.abandon_v1(name text, grant_id uuid) RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS 'SELECT interlock.abandon_many_v1(ARRAY[name], ARRAY[grant_id], NULL)';

REVOKE EXECUTE ON FUNCTION
    interlock.epoch_v1(), interlock.register_v1(text[]), interlock.offer_v1(text[], integer),
    interlock.acquire_many_v1(text[], uuid[], double precision[], jsonb[], boolean[], text, text, integer, integer, boolean),
    interlock.grant_v1(bigint, uuid), interlock.renew_many_v1(text[], bytea, double precision[]),
    interlock.end_broken_v1(text, bigint, uuid), interlock.release_many_v1(text[], bigint[], uuid[], integer, boolean), interlock.abandon_many_v1(text[], uuid[], integer),
    interlock.guard_v1(text, bigint, uuid), interlock.guarded_v1(), interlock.guards_v1(text),
    interlock.break_v1(text, boolean, boolean, text, text), interlock.leases_v1(text), interlock.waiters_v1(text),
    interlock.sweep_v1(double precision),
    interlock.acquire_v1(text, uuid, double precision, text, jsonb, boolean, text, integer, integer, boolean),
    interlock.renew_v1(text, bigint, uuid, double precision), interlock.release_v1(text, bigint, uuid, integer, boolean),
    interlock.abandon_v1(text, uuid)
FROM PUBLIC;
REVOKE EXECUTE ON PROCEDURE
    interlock.hand_on_v1(text, bigint, uuid, integer, text, uuid, boolean, bigint, double precision)
FROM PUBLIC;
