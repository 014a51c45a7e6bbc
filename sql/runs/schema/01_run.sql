-- One row a run, whatever the move. The states are those of groupshift.domain.run.RunState.
CREATE TABLE run (
    run           TEXT     PRIMARY KEY,
    move          TEXT     NOT NULL,
    target_kind   TEXT     NOT NULL CHECK (target_kind IN ('group', 'cluster', 'link')),
    target        TEXT     NOT NULL,
    within        TEXT     NOT NULL,
    state         TEXT     NOT NULL CHECK (state IN ('preview', 'planned', 'approved', 'running', 'moved',
                                                     'finalised', 'rolling_back', 'rolled_back', 'rejected')),
    plan          TEXT     NOT NULL,
    plan_hash     CHAR(64) NOT NULL,
    request       TEXT     NOT NULL,
    requester     TEXT     NOT NULL,
    origin        TEXT     UNIQUE,
    created_at_ms BIGINT   NOT NULL,
    updated_at_ms BIGINT   NOT NULL
);
