-- What the waves of a scan did; the run holds the details.
CREATE TABLE scan_toggle (
    ensemble  VARCHAR(400) NOT NULL,
    number    INTEGER      NOT NULL,
    group_id  VARCHAR(255) NOT NULL,
    wave      INTEGER      NOT NULL,
    to_mode   VARCHAR(20)  NOT NULL,
    state     VARCHAR(20)  NOT NULL,
    reason    TEXT         NOT NULL,
    run       VARCHAR(400) NOT NULL,
    at_ms     BIGINT       NOT NULL,
    PRIMARY KEY (ensemble, number, group_id, wave)
);
