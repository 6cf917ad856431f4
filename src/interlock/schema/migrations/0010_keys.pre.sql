-- A key to the API. Only its SHA-256 is stored: a key is 256 random bits, which cannot be found by trying, so the slow hashes
-- that passwords need would cost time on every request without a gain. `last_used_at` is exact to the minute.
CREATE TABLE interlock.api_key (
    id           text COLLATE "C" NOT NULL,
    name         text             NOT NULL,
    digest       bytea            NOT NULL,
    created_at   timestamptz      NOT NULL,
    last_used_at timestamptz,
    revoked_at   timestamptz,
    CONSTRAINT api_key_pkey PRIMARY KEY (id),
    CONSTRAINT api_key_digest_once UNIQUE (digest),
    CONSTRAINT api_key_digest_whole CHECK (octet_length(digest) = 32)
);
