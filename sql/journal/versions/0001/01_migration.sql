-- One row a migration. The phases are those of groupshift.domain.phases.Phase.
CREATE TABLE IF NOT EXISTS migration (
    migration     VARCHAR(400) PRIMARY KEY,
    group_id      VARCHAR(255) NOT NULL,
    run           VARCHAR(400) NOT NULL UNIQUE,
    phase         VARCHAR(20)  NOT NULL CHECK (
        phase IN ('preview', 'planned', 'approved', 'running', 'moved', 'finalised', 'rolling_back', 'rolled_back', 'rejected')
    ),
    plan_hash     CHAR(64)     NOT NULL,
    plan          TEXT         NOT NULL,
    request       TEXT         NOT NULL,
    created_at_ms BIGINT       NOT NULL,
    updated_at_ms BIGINT       NOT NULL
);
