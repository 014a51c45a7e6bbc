-- How far each step of a run is: written before it is done, when it is done, and when it was read back.
CREATE TABLE cluster_run_step (
    run    VARCHAR(400) NOT NULL REFERENCES cluster_run (run),
    step   VARCHAR(400) NOT NULL,
    state  VARCHAR(10)  NOT NULL CHECK (state IN ('intended', 'acted', 'done')),
    token  INTEGER      NOT NULL,
    at_ms  BIGINT       NOT NULL,
    intent TEXT         NOT NULL,
    result TEXT         NOT NULL,
    PRIMARY KEY (run, step)
);
