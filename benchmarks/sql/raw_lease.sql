-- The table of the raw contenders (pgbench, asyncpg): the columns of a lease, without functions, waiters or guard.
CREATE SCHEMA raw;

CREATE TABLE raw.lease (
    name text PRIMARY KEY,
    token bigint NOT NULL,
    grant_id uuid,
    holder text,
    host text,
    pid integer,
    metadata jsonb,
    ttl double precision NOT NULL,
    acquired_at timestamptz,
    renewed_at timestamptz,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);

INSERT INTO raw.lease (name, token, ttl, expires_at)
SELECT 'warm-' || number, 0, 30, '-infinity' FROM generate_series(0, 127) AS number;

-- The table that guarded and unguarded transactions write to.
CREATE TABLE raw.written (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    what text NOT NULL
);

-- The table in which a bare INSERT gives a name an owner.
CREATE TABLE raw.claim (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    scope text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    claimed_at timestamptz NOT NULL,
    released_at timestamptz,
    passed_to text COLLATE "C"
);
CREATE UNIQUE INDEX ON raw.claim (scope, name) WHERE released_at IS NULL;
