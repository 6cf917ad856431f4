-- One passage through a migration gate. The row is open from before the migration starts until it has ended, so a row that
-- is open while no session holds the gate's lock shows a migrator that died. That migrator may have left these sessions in
-- the server: those of its role, except `bystanders`, which existed before it; and those in `protected`.
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

-- The newest run of each gate, as long as the server has not lost its sessions since: a crash or a promotion empties this
-- table, a restart changes the time. It shows whether a migrator whose sessions are gone is certain to have ended.
CREATE UNLOGGED TABLE interlock.gate_witness (
    gate              text        NOT NULL,
    fence             bigint      NOT NULL,
    server_started_at timestamptz NOT NULL,
    CONSTRAINT gate_witness_pkey PRIMARY KEY (gate)
);

-- A step on a target without transactions: recorded before it begins and after it has ended, so a step that has begun and
-- not ended shows an effect that may be incomplete.
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

-- The operators that opened a gate by force, or settled an incomplete step, and their reasons.
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
