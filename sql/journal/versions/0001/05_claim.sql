-- Fencing tokens: the highest one of a migration is the only one that may act.
CREATE TABLE IF NOT EXISTS claim (
    migration VARCHAR(400) NOT NULL REFERENCES migration (migration),
    token     INTEGER      NOT NULL,
    run       VARCHAR(400) NOT NULL,
    at_ms     BIGINT       NOT NULL,
    PRIMARY KEY (migration, token)
);
