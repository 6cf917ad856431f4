-- Interlock's whole schema, as `interlock schema print` shows it: the sum of the migrations.
CREATE SCHEMA interlock;

-- What of Interlock's own schema has been applied.
CREATE TABLE interlock.migration (
    version    integer     NOT NULL,
    phase      text        NOT NULL,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT migration_pkey PRIMARY KEY (version, phase),
    CONSTRAINT migration_version_positive CHECK (version > 0),
    CONSTRAINT migration_phase_known CHECK (phase IN ('pre', 'post'))
);

-- The time that all replicas go by. Functions carry a version and never change under a running release.
-- The name is qualified because otherwise a session could bring a clock of its own, by its search path.
CREATE FUNCTION interlock.now_v1() RETURNS timestamptz
    LANGUAGE sql VOLATILE PARALLEL SAFE
    AS 'SELECT pg_catalog.clock_timestamp()';

-- One passage through a migration gate. The row is open from before the migration starts until it has ended,
-- so a row that is open while nobody holds the gate's lock tells of a migrator that died. What it may have left in the
-- server: the sessions of its role, except `bystanders`, which were there before it; and those in `protected`.
CREATE TABLE interlock.gate_run (
    gate             text        NOT NULL,
    fence            bigint      NOT NULL,
    replica          text        NOT NULL,
    host             text        NOT NULL,
    version          text,
    compatible_since text,
    ttl              interval    NOT NULL,
    lock_pid         integer     NOT NULL,
    migration_role   oid         NOT NULL,
    bystanders       jsonb       NOT NULL,
    protected        jsonb       NOT NULL DEFAULT '[]',
    step             text,
    step_started_at  timestamptz,
    started_at       timestamptz NOT NULL,
    heartbeat_at     timestamptz NOT NULL,
    ended_at         timestamptz,
    outcome          text,
    error            text,
    CONSTRAINT gate_run_pkey PRIMARY KEY (gate, fence),
    CONSTRAINT gate_run_outcome_known CHECK (outcome IN ('done', 'failed', 'lost', 'abandoned')),
    CONSTRAINT gate_run_ended_with_outcome CHECK ((ended_at IS NULL) = (outcome IS NULL))
);

CREATE UNIQUE INDEX gate_run_one_open ON interlock.gate_run (gate) WHERE ended_at IS NULL;

-- The newest run of each gate, as long as the server has not lost its sessions since: a crash or a promotion empties
-- this table, a restart changes the time. So a migrator whose sessions are gone is known to have ended, or is not.
CREATE UNLOGGED TABLE interlock.gate_witness (
    gate              text        NOT NULL,
    fence             bigint      NOT NULL,
    server_started_at timestamptz NOT NULL,
    CONSTRAINT gate_witness_pkey PRIMARY KEY (gate)
);

-- A step on a target without transactions: recorded before it begins and after it ended, so a step that has begun
-- and not ended tells of an effect that is perhaps half done.
CREATE TABLE interlock.gate_step (
    gate        text        NOT NULL,
    step        text        NOT NULL,
    fence       bigint      NOT NULL,
    replica     text        NOT NULL,
    started_at  timestamptz NOT NULL,
    finished_at timestamptz,
    result      jsonb,
    error       text,
    CONSTRAINT gate_step_pkey PRIMARY KEY (gate, step)
);

-- Who opened a gate by force, or settled a half-done step, and why.
CREATE TABLE interlock.gate_intervention (
    id          bigint      GENERATED ALWAYS AS IDENTITY,
    gate        text        NOT NULL,
    action      text        NOT NULL,
    subject     text        NOT NULL,
    reason      text,
    done_by     text        NOT NULL,
    done_at     timestamptz NOT NULL,
    CONSTRAINT gate_intervention_pkey PRIMARY KEY (id),
    CONSTRAINT gate_intervention_action_known CHECK (action IN ('unlock', 'step done', 'step again'))
);
