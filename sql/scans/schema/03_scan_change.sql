-- The history: what each scan found different from the one before.
CREATE TABLE scan_change (
    ensemble  VARCHAR(400) NOT NULL,
    number    INTEGER      NOT NULL,
    group_id  VARCHAR(255) NOT NULL,
    aspect    VARCHAR(20)  NOT NULL,
    was       TEXT         NOT NULL,
    became    TEXT         NOT NULL,
    PRIMARY KEY (ensemble, number, group_id, aspect)
);
