-- The applied migrations of Interlock's own schema.
CREATE TABLE interlock.migration (
    version    integer     NOT NULL,
    phase      text        NOT NULL,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT migration_pkey PRIMARY KEY (version, phase),
    CONSTRAINT migration_version_positive CHECK (version > 0),
    CONSTRAINT migration_phase_known CHECK (phase IN ('pre', 'post'))
);

-- The clock of all replicas. Functions carry a version and never change under a running release.
-- The name is qualified because a session could otherwise use another clock through its search path.
CREATE FUNCTION interlock.now_v1() RETURNS timestamptz
    LANGUAGE sql VOLATILE PARALLEL SAFE
    AS 'SELECT pg_catalog.clock_timestamp()';
