-- One row a run that changes a whole cluster. The states are those of groupshift.ports.cluster_runs.RunState.
CREATE TABLE cluster_run (
    run           VARCHAR(400) PRIMARY KEY,
    cluster_id    VARCHAR(255) NOT NULL,
    state         VARCHAR(20)  NOT NULL CHECK (state IN ('open', 'going_back', 'done', 'taken_back', 'ended')),
    plan_hash     CHAR(64)     NOT NULL,
    plan          TEXT         NOT NULL,
    created_at_ms BIGINT       NOT NULL,
    updated_at_ms BIGINT       NOT NULL
);
