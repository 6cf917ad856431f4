-- Differences between a driver's resources and the records: one open row for each instance and kind, closed when the
-- difference is gone. An orphan may have no record. `repair` is the orchestration that was last requested to repair it.
CREATE TABLE interlock.instance_drift (
    id        bigint           NOT NULL GENERATED ALWAYS AS IDENTITY,
    driver    text             NOT NULL,
    instance  text COLLATE "C" NOT NULL,
    kind      text             NOT NULL,
    name      text             NOT NULL,
    detail    text             NOT NULL,
    found_at  timestamptz      NOT NULL,
    closed_at timestamptz,
    repair    text COLLATE "C",
    CONSTRAINT instance_drift_pkey PRIMARY KEY (id),
    CONSTRAINT instance_drift_kind_known CHECK (kind IN ('orphan', 'vanished', 'wrong_state', 'dns'))
);

CREATE UNIQUE INDEX instance_drift_open ON interlock.instance_drift (driver, instance, kind) WHERE closed_at IS NULL;
CREATE INDEX instance_drift_by_end ON interlock.instance_drift (closed_at) WHERE closed_at IS NOT NULL;

-- The time of a driver's last check for drift, and the error if the check failed.
CREATE TABLE interlock.instance_look (
    driver    text        NOT NULL,
    looked_at timestamptz NOT NULL,
    trouble   text        NOT NULL DEFAULT '',
    CONSTRAINT instance_look_pkey PRIMARY KEY (driver)
);
