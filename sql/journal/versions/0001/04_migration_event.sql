-- Everything that happened, in order; only ever appended to.
CREATE TABLE IF NOT EXISTS migration_event (
    migration VARCHAR(400) NOT NULL REFERENCES migration (migration),
    seq       INTEGER      NOT NULL,
    at_ms     BIGINT       NOT NULL,
    token     INTEGER      NOT NULL,
    kind      VARCHAR(30)  NOT NULL,
    stage     VARCHAR(20),
    body      TEXT         NOT NULL,
    PRIMARY KEY (migration, seq)
);
