-- Fencing tokens: the highest one of a run is the only one that may act.
CREATE TABLE cluster_run_claim (
    run    VARCHAR(400) NOT NULL REFERENCES cluster_run (run),
    token  INTEGER      NOT NULL,
    holder VARCHAR(400) NOT NULL,
    at_ms  BIGINT       NOT NULL,
    PRIMARY KEY (run, token)
);
