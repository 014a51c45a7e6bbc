-- Fencing tokens: the highest one of a run is the only one that may act. The old journal has a table claim in
-- the same database, so this one is called run_claim until the old one is gone.
CREATE TABLE run_claim (
    run    TEXT    NOT NULL REFERENCES run (run),
    token  INTEGER NOT NULL,
    holder TEXT    NOT NULL,
    at_ms  BIGINT  NOT NULL,
    PRIMARY KEY (run, token)
);
