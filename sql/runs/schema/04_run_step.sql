-- How far each step of a run is: written before its act, after it, and after each look that changes something.
CREATE TABLE run_step (
    run    TEXT    NOT NULL REFERENCES run (run),
    step   TEXT    NOT NULL,
    state  TEXT    NOT NULL CHECK (state IN ('intended', 'acted', 'done', 'reopened')),
    token  INTEGER NOT NULL,
    at_ms  BIGINT  NOT NULL,
    intent TEXT    NOT NULL,
    result TEXT    NOT NULL,
    PRIMARY KEY (run, step)
);
