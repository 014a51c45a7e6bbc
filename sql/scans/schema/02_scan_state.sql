-- The last state of each group; number is the scan that saw it last.
CREATE TABLE scan_state (
    ensemble VARCHAR(400) NOT NULL,
    group_id VARCHAR(255) NOT NULL,
    number   INTEGER      NOT NULL,
    state    TEXT         NOT NULL,
    PRIMARY KEY (ensemble, group_id)
);
