-- A backup of an instance. `orchestration` is the one that works on it or did last, `working` is true while it does; only that
-- one writes here. `begun_at`: the start of its long step, without the time in the queue. `path` is relative to the backup
-- directory, and set once the file is complete; `sha256` is that of the file.
CREATE TABLE interlock.instance_backup (
    id              text COLLATE "C" NOT NULL,
    instance        text COLLATE "C" NOT NULL,
    instance_name   text COLLATE "C" NOT NULL,
    format          text             NOT NULL,
    state           text             NOT NULL DEFAULT 'making',
    revision        bigint           NOT NULL DEFAULT 1,
    path            text,
    size_bytes      bigint,
    sha256          text,
    server_version  text,
    program_version text,
    error           text,
    error_code      text,
    orchestration   text COLLATE "C" NOT NULL,
    working         boolean          NOT NULL DEFAULT true,
    begun_at        timestamptz,
    created_at      timestamptz      NOT NULL,
    created_by      text             NOT NULL,
    updated_at      timestamptz      NOT NULL,
    made_at         timestamptz,
    verified_at     timestamptz,
    deleted_at      timestamptz,
    CONSTRAINT instance_backup_pkey PRIMARY KEY (id),
    CONSTRAINT instance_backup_of_instance FOREIGN KEY (instance) REFERENCES interlock.instance (id),
    CONSTRAINT instance_backup_format_known CHECK (format IN ('file', 'directory')),
    CONSTRAINT instance_backup_state_known CHECK (state IN ('making', 'made', 'failed', 'deleting', 'deleted')),
    CONSTRAINT instance_backup_made_whole CHECK (
        state <> 'made' OR (path IS NOT NULL AND size_bytes IS NOT NULL AND sha256 IS NOT NULL AND server_version IS NOT NULL
                            AND program_version IS NOT NULL AND made_at IS NOT NULL)),
    CONSTRAINT instance_backup_deleted_with_time CHECK ((state = 'deleted') = (deleted_at IS NOT NULL))
);

CREATE INDEX instance_backup_by_instance ON interlock.instance_backup (instance, created_at);
CREATE INDEX instance_backup_by_time ON interlock.instance_backup (created_at);

-- The states of `interlock/instances/backups/model.py`: the database refuses every other change.
CREATE TRIGGER instance_backup_state_machine_begin AFTER INSERT ON interlock.instance_backup FOR EACH ROW
    WHEN (NEW.state IS DISTINCT FROM 'making') EXECUTE FUNCTION interlock.state_machine_v1();
CREATE TRIGGER instance_backup_state_machine AFTER UPDATE ON interlock.instance_backup FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state
          AND ((OLD.state, NEW.state) IN (('making', 'made'), ('making', 'failed'), ('making', 'deleting'), ('made', 'failed'),
               ('made', 'deleting'), ('failed', 'deleting'), ('deleting', 'deleted'), ('deleting', 'failed'))) IS NOT TRUE)
    EXECUTE FUNCTION interlock.state_machine_v1();
