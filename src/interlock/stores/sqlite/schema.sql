-- Interlock's tables in a SQLite file, version 1. The first process that opens the file creates them. They may be in one
-- file with tables of yours, so that your transactions can carry a guard.

-- One row for the whole file. `token_floor` is the highest token of any lease that was ever deleted.
CREATE TABLE interlock_file (
    only_row    INTEGER NOT NULL CONSTRAINT interlock_file_pkey PRIMARY KEY CONSTRAINT interlock_file_single CHECK (only_row = 1),
    version     INTEGER NOT NULL,
    token_floor INTEGER NOT NULL DEFAULT 0
);

INSERT INTO interlock_file (only_row, version) VALUES (1, 1);

-- One lease: a name, its holder and its expiry. The row stays when the lease is free, so its token never goes back.
-- `expires_at` is on CLOCK_BOOTTIME, which counts from the machine's start and cannot be set, so it means something
-- only together with `boot`: a lease of an earlier boot is free, because no process outlives its machine's restart.
-- `acquired_at` and `used_at` are on the wall clock: for display, and for the sweep.
CREATE TABLE interlock_lease (
    name        TEXT    NOT NULL CONSTRAINT interlock_lease_pkey PRIMARY KEY,
    token       INTEGER NOT NULL,
    grant_id    TEXT,
    boot        TEXT,
    expires_at  REAL    NOT NULL DEFAULT 0,
    ttl         REAL    NOT NULL DEFAULT 0,
    holder      TEXT,
    host        TEXT,
    pid         INTEGER,
    metadata    TEXT,
    acquired_at REAL,
    used_at     REAL    NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- The waiters for a lease; `place` is the order of arrival. `listener` is the socket at which the waiter's process is
-- notified: the waiter is alive while that is open. A waiter without one is alive while it keeps polling.
CREATE TABLE interlock_waiter (
    place      INTEGER CONSTRAINT interlock_waiter_pkey PRIMARY KEY AUTOINCREMENT,
    grant_id   TEXT NOT NULL CONSTRAINT interlock_waiter_grant UNIQUE,
    name       TEXT NOT NULL,
    boot       TEXT NOT NULL,
    listener   TEXT,
    seen_at    REAL NOT NULL,
    offered_at REAL,
    holder     TEXT,
    host       TEXT,
    pid        INTEGER
);

CREATE INDEX interlock_waiter_queue ON interlock_waiter (name, place);

-- The value of a record under a key, and the token of the grant that wrote it.
CREATE TABLE interlock_record (
    key        TEXT    NOT NULL CONSTRAINT interlock_record_pkey PRIMARY KEY,
    token      INTEGER NOT NULL,
    value      TEXT    NOT NULL,
    written_at REAL    NOT NULL
) WITHOUT ROWID;
