-- Names that belong to an owner, from the claim until their resources are gone. One row for each period in which a name was
-- owned; a released row stays, for the history. Claimed and released inside users' own transactions.
CREATE TABLE interlock.claim (
    id          bigint GENERATED ALWAYS AS IDENTITY,
    scope       text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    owner       text COLLATE "C" NOT NULL,
    claimed_at  timestamptz      NOT NULL,
    released_at timestamptz,
    passed_to   text COLLATE "C",
    CONSTRAINT claim_pkey PRIMARY KEY (id)
);

-- This constraint decides: a name has one owner.
CREATE UNIQUE INDEX claim_held ON interlock.claim (scope, name) WHERE released_at IS NULL;
CREATE INDEX claim_past ON interlock.claim (scope, name) WHERE released_at IS NOT NULL;

-- True if only this transaction may now give that name to an owner, or take it away; never waits. The lock is released at
-- the transaction's end, after its changes are visible, and by a rollback to a savepoint, together with the changes since.
-- One expression, so that it costs no statement of its own.
CREATE FUNCTION interlock.claim_lock_v1(claim_scope text, claim_name text) RETURNS boolean
    LANGUAGE sql VOLATILE
    AS $$
    SELECT pg_catalog.pg_try_advisory_xact_lock(
        (pg_catalog.hashtextextended(claim_scope || chr(31) || claim_name, 1229737039) >> 32)::integer,
        ((pg_catalog.hashtextextended(claim_scope || chr(31) || claim_name, 1229737039) << 32) >> 32)::integer)
    $$;

-- Claim names for an owner: all of them, or none. This never waits for another transaction and never fails because of one,
-- since an error would abort the user's own transaction: an open transaction is checked again until `wait` seconds are over.
-- Names of another owner are reported without a lock. Names of the same owner are locked in shared mode, so that their
-- release waits. Free names are locked, checked again, and inserted. Under a snapshot that is too old, this fails with 40001.
CREATE FUNCTION interlock.claim_v1(
    claim_scope text, claim_names text[], claim_owner text, wait double precision DEFAULT 0, again boolean DEFAULT false
) RETURNS TABLE (name text, status text, id bigint, owner text, since timestamptz, released_at timestamptz)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
    SET plan_cache_mode = force_generic_plan
    AS $$
#variable_conflict use_column
DECLARE
    wanted  text[] := claim_names;
    give_up timestamptz := clock_timestamp() + make_interval(secs => least(coalesce(wait, 0), 86400));
    nap     double precision := 0.002;
    own     text[];
    one     text;
    open    text;
    others  boolean;
    late    boolean;
    mine    bigint;
    locked  boolean := false;
    added   bigint;
BEGIN
    IF cardinality(wanted) > 1 THEN
        wanted := ARRAY(SELECT DISTINCT n.name COLLATE "C" FROM unnest(claim_names) AS n (name) ORDER BY 1);
    END IF;
    FOREACH one IN ARRAY coalesce(wanted, '{}') || claim_scope || claim_owner LOOP
        IF coalesce(cardinality(wanted), 0) = 0 OR (octet_length(one) BETWEEN 1 AND 255) IS NOT TRUE THEN
            RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a scope, an owner and every name have 1 to 255 bytes';
        END IF;
    END LOOP;
    LOOP
        LOOP
            own := '{}';
            SELECT bool_or(s.holds AND s.owner <> claim_owner), bool_or(NOT s.holds),
                   count(*) FILTER (WHERE s.holds AND s.owner = claim_owner)
              INTO others, late, mine
              FROM (SELECT c.owner, true FROM interlock.claim c
                     WHERE c.scope = claim_scope AND c.name = ANY (wanted) AND c.released_at IS NULL
                     UNION ALL
                    SELECT c.owner, false FROM interlock.claim c
                     WHERE c.scope = claim_scope AND c.name = ANY (wanted) AND c.released_at IS NOT NULL
                       AND c.owner = claim_owner AND NOT EXISTS (
                           SELECT FROM interlock.claim h
                            WHERE h.scope = claim_scope AND h.name = c.name AND h.released_at IS NULL)) AS s (owner, holds);
            open := NULL;
            IF mine > 0 THEN  -- also if other names are taken: "yours" is reported only for names that cannot be released meanwhile
                own := ARRAY(SELECT c.name FROM interlock.claim c
                              WHERE c.scope = claim_scope AND c.name = ANY (wanted) AND c.released_at IS NULL
                                AND c.owner = claim_owner FOR SHARE SKIP LOCKED);
                SELECT min(c.name) INTO open FROM interlock.claim c
                 WHERE c.scope = claim_scope AND c.name = ANY (wanted) AND c.released_at IS NULL AND c.owner = claim_owner
                   AND c.name <> ALL (own);
            END IF;
            EXIT WHEN others OR late AND NOT again;
            EXIT WHEN open IS NULL AND (locked OR cardinality(own) = cardinality(wanted));
            IF open IS NULL THEN
                FOREACH one IN ARRAY wanted LOOP
                    IF one <> ALL (own) AND NOT interlock.claim_lock_v1(claim_scope, one) THEN
                        open := one;
                        EXIT;
                    END IF;
                END LOOP;
                locked := open IS NULL;
                CONTINUE WHEN locked;  -- it may have had an owner until just now: read it again
            END IF;
            EXIT WHEN clock_timestamp() >= give_up;
            PERFORM pg_sleep(least(nap, extract(epoch FROM give_up - clock_timestamp())));
            nap := least(nap * 1.5, 0.05);
        END LOOP;
        IF open IS NULL AND (others OR late AND NOT again) IS NOT TRUE THEN
            IF cardinality(own) < cardinality(wanted) THEN
                RETURN QUERY
                INSERT INTO interlock.claim AS c (scope, name, owner, claimed_at)
                SELECT claim_scope, w.name, claim_owner, interlock.now_v1()
                  FROM unnest(wanted) AS w (name) WHERE w.name <> ALL (own)
                    ON CONFLICT (scope, name) WHERE released_at IS NULL DO NOTHING
                RETURNING c.name, 'claimed', c.id, c.owner, c.claimed_at, c.released_at;
                GET DIAGNOSTICS added = ROW_COUNT;
                IF added < cardinality(wanted) - cardinality(own) THEN
                    RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = 'a claim was written beside the protocol: try again';
                END IF;
            END IF;
            IF cardinality(own) > 0 THEN
                RETURN QUERY
                SELECT c.name, 'yours', c.id, c.owner, c.claimed_at, c.released_at FROM interlock.claim c
                 WHERE c.scope = claim_scope AND c.name = ANY (own) AND c.released_at IS NULL;
            END IF;
            RETURN;
        END IF;
        RETURN QUERY
        WITH told AS (
            SELECT w.name AS name,
                   CASE WHEN c.owner <> claim_owner THEN 'taken'
                        WHEN w.name = ANY (own) THEN 'yours'
                        WHEN w.name = open OR c.id IS NOT NULL THEN 'pending'
                        WHEN p.id IS NOT NULL AND NOT again THEN 'released'
                        ELSE 'free' END AS status,
                   coalesce(c.id, p.id) AS id, coalesce(c.owner, p.owner) AS owner,
                   coalesce(c.claimed_at, p.claimed_at) AS since, p.released_at AS released_at
              FROM unnest(wanted) AS w (name)
              LEFT JOIN interlock.claim c ON c.scope = claim_scope AND c.name = w.name AND c.released_at IS NULL
              LEFT JOIN LATERAL (
                   SELECT * FROM interlock.claim h
                    WHERE c.id IS NULL AND h.scope = claim_scope AND h.name = w.name AND h.released_at IS NOT NULL
                      AND h.owner = claim_owner
                    ORDER BY h.id DESC LIMIT 1) AS p ON true
        )
        SELECT * FROM told WHERE EXISTS (SELECT FROM told t WHERE t.status IN ('taken', 'pending', 'released'));
        IF FOUND THEN
            RETURN;
        END IF;
        locked := false;  -- the conflicting row has gone since it was read
    END LOOP;
END
$$;

-- The same for one name. A free name, the usual case, is claimed here in two statements, all others by `claim_v1`.
CREATE FUNCTION interlock.claim_one_v1(
    claim_scope text, claim_name text, claim_owner text, wait double precision DEFAULT 0, again boolean DEFAULT false,
    OUT status text, OUT id bigint, OUT owner text, OUT since timestamptz, OUT released_at timestamptz
)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
    AS $$
#variable_conflict use_column
BEGIN
    IF octet_length(claim_name) BETWEEN 1 AND 255
       AND octet_length(claim_scope) BETWEEN 1 AND 255 AND octet_length(claim_owner) BETWEEN 1 AND 255 THEN
        PERFORM FROM interlock.claim c WHERE c.scope = claim_scope AND c.name = claim_name AND c.released_at IS NULL
          UNION ALL
         SELECT FROM interlock.claim c WHERE c.scope = claim_scope AND c.name = claim_name AND c.released_at IS NOT NULL
                                         AND c.owner = claim_owner;
        IF NOT FOUND AND interlock.claim_lock_v1(claim_scope, claim_name) THEN
            INSERT INTO interlock.claim AS c (scope, name, owner, claimed_at)
            SELECT claim_scope, claim_name, claim_owner, interlock.now_v1()
             WHERE NOT EXISTS (SELECT FROM interlock.claim p
                                WHERE p.scope = claim_scope AND p.name = claim_name AND p.released_at IS NOT NULL
                                  AND p.owner = claim_owner)
                ON CONFLICT (scope, name) WHERE released_at IS NULL DO NOTHING
            RETURNING 'claimed', c.id, c.owner, c.claimed_at INTO status, id, owner, since;
            IF FOUND THEN
                RETURN;
            END IF;
        END IF;
    END IF;
    SELECT c.status, c.id, c.owner, c.since, c.released_at INTO status, id, owner, since, released_at
      FROM interlock.claim_v1(claim_scope, ARRAY[claim_name], claim_owner, wait, again) AS c;
END
$$;

-- Release a name of the owner, or pass it on to another. Decides: the row, locked and found to be the owner's. As above it
-- never waits for a transaction, and a repeated call gets the result of the first one.
CREATE FUNCTION interlock.release_claim_v1(
    claim_scope text, claim_name text, claim_owner text, wait double precision DEFAULT 0, pass_to text DEFAULT NULL
) RETURNS TABLE (status text, id bigint, owner text, since timestamptz, released_at timestamptz, passed_to text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
    AS $$
#variable_conflict use_column
DECLARE
    give_up timestamptz := clock_timestamp() + make_interval(secs => least(coalesce(wait, 0), 86400));
    nap     double precision := 0.002;
    moment  timestamptz;
    held    interlock.claim;
    past    interlock.claim;
BEGIN
    IF coalesce(octet_length(pass_to), 1) NOT BETWEEN 1 AND 255 OR pass_to = claim_owner THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'a name is passed on to another owner, of 1 to 255 bytes';
    END IF;
    LOOP
        SELECT * INTO held FROM interlock.claim c
         WHERE c.scope = claim_scope AND c.name = claim_name AND c.released_at IS NULL;
        IF held.id IS NULL OR held.owner <> claim_owner THEN
            SELECT * INTO past FROM interlock.claim c
             WHERE c.scope = claim_scope AND c.name = claim_name AND c.released_at IS NOT NULL AND c.owner = claim_owner
             ORDER BY c.id DESC LIMIT 1;
            IF past.id IS NOT NULL AND past.passed_to IS NOT DISTINCT FROM pass_to THEN
                RETURN QUERY SELECT 'before', past.id, past.owner, past.claimed_at, past.released_at, past.passed_to;
            ELSIF held.id IS NOT NULL THEN
                RETURN QUERY SELECT 'taken', held.id, held.owner, held.claimed_at, held.released_at, held.passed_to;
            END IF;
            RETURN;
        END IF;
        PERFORM FROM interlock.claim c WHERE c.id = held.id AND c.released_at IS NULL FOR UPDATE SKIP LOCKED;
        IF FOUND AND interlock.claim_lock_v1(claim_scope, claim_name) THEN
            moment := greatest(interlock.now_v1(), held.claimed_at);
            UPDATE interlock.claim c SET released_at = moment, passed_to = pass_to WHERE c.id = held.id;
            IF pass_to IS NOT NULL THEN
                INSERT INTO interlock.claim (scope, name, owner, claimed_at) VALUES (claim_scope, claim_name, pass_to, moment);
            END IF;
            RETURN QUERY SELECT 'released', held.id, held.owner, held.claimed_at, moment, pass_to;
            RETURN;
        END IF;
        IF clock_timestamp() >= give_up THEN
            RETURN QUERY SELECT 'pending', held.id, held.owner, held.claimed_at, held.released_at, held.passed_to;
            RETURN;
        END IF;
        PERFORM pg_sleep(least(nap, extract(epoch FROM give_up - clock_timestamp())));
        nap := least(nap * 1.5, 0.05);
    END LOOP;
END
$$;

-- The owners of names, by scope and name; with `past` also the former ones, in order.
CREATE FUNCTION interlock.claims_v1(
    only_scope text DEFAULT NULL, only_name text DEFAULT NULL, only_owner text DEFAULT NULL, past boolean DEFAULT false
) RETURNS TABLE (id bigint, scope text, name text, owner text, since timestamptz, released_at timestamptz, passed_to text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_custom_plan
    AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT c.id, c.scope, c.name, c.owner, c.claimed_at, c.released_at, c.passed_to
      FROM interlock.claim c
     WHERE (past OR c.released_at IS NULL) AND (only_scope IS NULL OR c.scope = only_scope)
       AND (only_name IS NULL OR c.name = only_name) AND (only_owner IS NULL OR c.owner = only_owner)
     ORDER BY c.scope, c.name, c.id;
END
$$;

REVOKE EXECUTE ON FUNCTION
    interlock.claim_v1(text, text[], text, double precision, boolean),
    interlock.claim_one_v1(text, text, text, double precision, boolean),
    interlock.release_claim_v1(text, text, text, double precision, text), interlock.claims_v1(text, text, text, boolean)
FROM PUBLIC;
