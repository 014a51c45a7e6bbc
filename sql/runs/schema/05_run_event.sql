-- The history of a run, numbered 1, 2, 3.
CREATE TABLE run_event (
    run   TEXT    NOT NULL REFERENCES run (run),
    seq   INTEGER NOT NULL,
    at_ms BIGINT  NOT NULL,
    token INTEGER NOT NULL,
    kind  TEXT    NOT NULL,
    step  TEXT    NOT NULL,
    body  TEXT    NOT NULL,
    PRIMARY KEY (run, seq)
);
