-- A requested orchestration. The row is the outbox: it is written in the transaction that wants the work done, and an
-- orchestration that the engine does not know yet is started from it. `output` is JSON; of a failed one, the failure.
CREATE TABLE interlock.orchestration (
    id                  text COLLATE "C" NOT NULL,
    name                text             NOT NULL,
    version             text             NOT NULL,
    input               jsonb            NOT NULL,
    cleanup             text,
    cleanup_version     text,
    recorded_at         timestamptz      NOT NULL,
    started_at          timestamptz,
    cancel_requested_at timestamptz,
    cancel_reason       text,
    cancel_sent_at      timestamptz,
    finished_at         timestamptz,
    outcome             text,
    output              text,
    CONSTRAINT orchestration_pkey PRIMARY KEY (id),
    CONSTRAINT orchestration_id_length CHECK (octet_length(id) BETWEEN 1 AND 255),
    CONSTRAINT orchestration_outcome_known CHECK (outcome IN ('completed', 'failed', 'cancelled')),
    CONSTRAINT orchestration_finished_with_outcome CHECK ((finished_at IS NULL) = (outcome IS NULL))
);

CREATE INDEX orchestration_unfinished ON interlock.orchestration (recorded_at) WHERE finished_at IS NULL;
CREATE INDEX orchestration_finished ON interlock.orchestration (finished_at) WHERE finished_at IS NOT NULL;

-- The attempts at one step: the newest number is the fencing token of the step's effects, and the time is that of the first
-- attempt, so that a repeated effect is written with the same time. `root` is the recorded orchestration.
CREATE TABLE interlock.attempt (
    root          text COLLATE "C" NOT NULL,
    orchestration text COLLATE "C" NOT NULL,
    execution     bigint           NOT NULL,
    step          integer          NOT NULL,
    attempt       bigint           NOT NULL,
    begun_at      timestamptz      NOT NULL,
    CONSTRAINT attempt_pkey PRIMARY KEY (root, orchestration, execution, step)
);

-- Request an orchestration, in the caller's transaction: 'recorded'; 'same', if it was requested before; 'different', if
-- another one was requested under that id. Decides: the primary key. Waits a short time for another open transaction.
CREATE FUNCTION interlock.record_orchestration_v1(
    orchestration_id text, orchestration_name text, orchestration_version text, orchestration_input jsonb,
    cleanup_name text, cleanup_version text
) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s'
    AS $$
DECLARE
    earlier interlock.orchestration;
BEGIN
    INSERT INTO interlock.orchestration (id, name, version, input, cleanup, cleanup_version, recorded_at)
    VALUES (orchestration_id, orchestration_name, orchestration_version, orchestration_input,
            cleanup_name, record_orchestration_v1.cleanup_version, interlock.now_v1())
        ON CONFLICT ON CONSTRAINT orchestration_pkey DO NOTHING;
    IF FOUND THEN
        RETURN 'recorded';
    END IF;
    SELECT * INTO earlier FROM interlock.orchestration o WHERE o.id = orchestration_id;
    RETURN CASE WHEN earlier.name = orchestration_name AND earlier.input = orchestration_input THEN 'same' ELSE 'different' END;
END
$$;

-- Request that an orchestration is cancelled, in the caller's transaction: 'requested', 'finished', or null if there is none.
CREATE FUNCTION interlock.cancel_orchestration_v1(orchestration_id text, reason text) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s'
    AS $$
BEGIN
    UPDATE interlock.orchestration o
       SET cancel_requested_at = coalesce(o.cancel_requested_at, interlock.now_v1()),
           cancel_reason = CASE WHEN o.cancel_requested_at IS NULL THEN reason ELSE o.cancel_reason END
     WHERE o.id = orchestration_id AND o.finished_at IS NULL;
    IF FOUND THEN
        RETURN 'requested';
    END IF;
    RETURN (SELECT 'finished' FROM interlock.orchestration o WHERE o.id = orchestration_id);
END
$$;

-- One orchestration as recorded, for statements on other tables; no row: it is unknown, or was deleted.
CREATE FUNCTION interlock.read_orchestration_v1(orchestration_id text)
    RETURNS TABLE (name text, input jsonb, recorded_at timestamptz, finished_at timestamptz, outcome text, output text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
    SELECT o.name, o.input, o.recorded_at, o.finished_at, o.outcome, o.output
      FROM interlock.orchestration o WHERE o.id = orchestration_id;
$$;

-- Begin another attempt at a step; no row: the orchestration has ended, or is unknown. Waits for open transactions that
-- carry the fence of the previous attempt. A transaction that ends an orchestration locks its row FOR UPDATE first, so no
-- attempt begins after that.
CREATE FUNCTION interlock.begin_attempt_v1(root_id text, orchestration_id text, execution_number bigint, step_number integer)
    RETURNS TABLE (attempt bigint, begun_at timestamptz)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM interlock.orchestration o WHERE o.id = root_id AND o.finished_at IS NULL FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY
    INSERT INTO interlock.attempt AS a (root, orchestration, execution, step, attempt, begun_at)
    VALUES (root_id, orchestration_id, execution_number, step_number, 1, interlock.now_v1())
        ON CONFLICT ON CONSTRAINT attempt_pkey DO UPDATE SET attempt = a.attempt + 1
    RETURNING a.attempt, a.begun_at;
END
$$;

-- Let the caller's transaction commit only while that attempt is the newest. Decides: the lock of its row, which the next
-- attempt has to change, and the end of the orchestration to delete.
CREATE FUNCTION interlock.fence_v1(
    root_id text, orchestration_id text, execution_number bigint, step_number integer, attempt_number bigint
) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    locker xid;
    parts  xid[];
BEGIN
    PERFORM FROM interlock.attempt a
      WHERE a.root = root_id AND a.orchestration = orchestration_id AND a.execution = execution_number
        AND a.step = step_number AND a.attempt = attempt_number FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'IL010',
            MESSAGE = format('attempt %s at step %s of the orchestration %s is not the newest any more',
                             attempt_number, step_number, quote_literal(orchestration_id)),
            HINT = 'Roll back: another replica has gone on with it.';
    END IF;
    SELECT a.xmax INTO locker FROM interlock.attempt a
     WHERE a.root = root_id AND a.orchestration = orchestration_id AND a.execution = execution_number AND a.step = step_number;
    IF locker <> pg_current_xact_id()::xid THEN
        parts := ARRAY(
            SELECT k.transactionid FROM pg_locks k
             WHERE k.pid = pg_backend_pid() AND k.locktype = 'transactionid' AND k.mode = 'ExclusiveLock' AND k.granted
               AND k.transactionid <> pg_current_xact_id()::xid);
        IF locker = ANY (parts) OR (cardinality(parts) > 0 AND NOT interlock.locked_here_v1(locker)) THEN
            RAISE EXCEPTION USING ERRCODE = 'IL003',
                MESSAGE = format('the fence of the orchestration %s stands after a savepoint', quote_literal(orchestration_id)),
                HINT = 'Call the fence before the savepoint (the nested transaction): a rollback to it would undo the fence.';
        END IF;
    END IF;
    IF current_setting('client_connection_check_interval') = '0' AND version() LIKE '%linux%' THEN
        PERFORM set_config('client_connection_check_interval', '1s', true);
    END IF;
    IF current_setting('idle_in_transaction_session_timeout') = '0' THEN
        PERFORM set_config('idle_in_transaction_session_timeout', '10s', true);
    END IF;
END
$$;

REVOKE EXECUTE ON FUNCTION
    interlock.record_orchestration_v1(text, text, text, jsonb, text, text), interlock.cancel_orchestration_v1(text, text),
    interlock.read_orchestration_v1(text), interlock.begin_attempt_v1(text, text, bigint, integer),
    interlock.fence_v1(text, text, bigint, integer, bigint)
FROM PUBLIC;
