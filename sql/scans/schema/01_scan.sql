-- One row a scan of an ensemble; a scan without an end runs or was killed.
CREATE TABLE scan (
    ensemble    VARCHAR(400) NOT NULL,
    number      INTEGER      NOT NULL,
    began_at_ms BIGINT       NOT NULL,
    ended_at_ms BIGINT,
    totals      TEXT         NOT NULL,
    PRIMARY KEY (ensemble, number)
);
