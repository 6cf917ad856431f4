-- A PostgreSQL instance. `orchestration` is the one that works on it or did last, `working` is true while it does; only that
-- one writes here. Names are held until all resources are confirmed to be gone, in every state: `names_freed_at`.
-- `version`, `storage_bytes` and `parameters` were requested; a version that was not requested is noted when the server
-- answers. There is no password here: drivers keep those.
CREATE TABLE interlock.instance (
    id             text COLLATE "C" NOT NULL,
    name           text COLLATE "C" NOT NULL,
    dns_name       text COLLATE "C",
    driver         text             NOT NULL,
    version        text,
    storage_bytes  bigint,
    parameters     jsonb            NOT NULL DEFAULT '{}',
    tags           jsonb            NOT NULL DEFAULT '{}',
    state          text             NOT NULL DEFAULT 'creating',
    revision       bigint           NOT NULL DEFAULT 1,
    health         text             NOT NULL DEFAULT 'unknown',
    host           text,
    port           integer,
    owner          text,
    database       text,
    ca             text,
    error          text,
    error_code     text,
    orchestration  text COLLATE "C" NOT NULL,
    working        boolean          NOT NULL DEFAULT true,
    watcher        text COLLATE "C",
    created_at     timestamptz      NOT NULL,
    created_by     text             NOT NULL,
    updated_at     timestamptz      NOT NULL,
    names_freed_at timestamptz,
    deleted_at     timestamptz,
    CONSTRAINT instance_pkey PRIMARY KEY (id),
    CONSTRAINT instance_state_known CHECK (
        state IN ('creating', 'running', 'stopping', 'stopped', 'starting', 'deleting', 'deleted', 'failed')),
    CONSTRAINT instance_health_known CHECK (health IN ('unknown', 'healthy', 'unhealthy')),
    CONSTRAINT instance_deleted_with_time CHECK ((state = 'deleted') = (deleted_at IS NOT NULL)),
    CONSTRAINT instance_deleted_without_names CHECK (deleted_at IS NULL OR names_freed_at IS NOT NULL)
);

CREATE UNIQUE INDEX instance_name_held ON interlock.instance (name) WHERE names_freed_at IS NULL;
CREATE UNIQUE INDEX instance_dns_name_held ON interlock.instance (dns_name) WHERE names_freed_at IS NULL;

-- The states of `interlock/instances/model.py`: the database refuses every other change.
CREATE TRIGGER instance_state_machine_begin AFTER INSERT ON interlock.instance FOR EACH ROW
    WHEN (NEW.state IS DISTINCT FROM 'creating') EXECUTE FUNCTION interlock.state_machine_v1();
CREATE TRIGGER instance_state_machine AFTER UPDATE ON interlock.instance FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state
          AND ((OLD.state, NEW.state) IN (('creating', 'running'), ('creating', 'failed'), ('creating', 'deleting'), ('running', 'stopping'),
               ('running', 'starting'), ('running', 'failed'), ('running', 'deleting'), ('stopping', 'stopped'),
               ('stopping', 'running'), ('stopping', 'failed'), ('stopping', 'deleting'), ('stopped', 'starting'),
               ('stopped', 'failed'), ('stopped', 'deleting'), ('starting', 'running'), ('starting', 'stopped'),
               ('starting', 'failed'), ('starting', 'deleting'), ('failed', 'deleting'), ('deleting', 'deleted'),
               ('deleting', 'failed'))) IS NOT TRUE) EXECUTE FUNCTION interlock.state_machine_v1();

-- The results of an instance's health checks: one row for the recorded time, however often it is reported.
CREATE TABLE interlock.instance_check (
    instance     text COLLATE "C" NOT NULL,
    recorded_at  timestamptz      NOT NULL,
    healthy      boolean          NOT NULL,
    milliseconds double precision NOT NULL,
    detail       text             NOT NULL DEFAULT '',
    CONSTRAINT instance_check_pkey PRIMARY KEY (instance, recorded_at),
    CONSTRAINT instance_check_of_instance FOREIGN KEY (instance) REFERENCES interlock.instance (id)
);

CREATE INDEX instance_check_by_time ON interlock.instance_check (recorded_at);
