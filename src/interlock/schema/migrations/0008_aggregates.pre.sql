-- The events of records of every kind: one row for each kind and recorded time, however often it is reported. `actor` is
-- `interlock`, or `key:ID`; `orchestration` is the one whose step this was, or the one that was requested.
CREATE TABLE interlock.event (
    subject_kind  text             NOT NULL,
    subject       text COLLATE "C" NOT NULL,
    recorded_at   timestamptz      NOT NULL,
    kind          text             NOT NULL,
    detail        text             NOT NULL DEFAULT '',
    actor         text             NOT NULL,
    orchestration text COLLATE "C",
    CONSTRAINT event_pkey PRIMARY KEY (subject_kind, subject, recorded_at, kind)
);

CREATE INDEX event_by_time ON interlock.event (recorded_at);

-- For the triggers that restrict a table to the states of its records: each names the declared transitions.
CREATE FUNCTION interlock.state_machine_v1() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME,
        SCHEMA = TG_TABLE_SCHEMA, MESSAGE = CASE TG_OP
            WHEN 'INSERT' THEN format('a row of %I does not begin in the state %L', TG_TABLE_NAME, NEW."state")
            ELSE format('a row of %I does not go from %L to %L', TG_TABLE_NAME, OLD."state", NEW."state") END;
END
$$;
