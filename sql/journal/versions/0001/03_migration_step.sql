-- The act of a stage: what is intended (written before it is done) and what was done.
CREATE TABLE IF NOT EXISTS migration_step (
    migration VARCHAR(400) NOT NULL REFERENCES migration (migration),
    stage     VARCHAR(20)  NOT NULL,
    state     VARCHAR(10)  NOT NULL CHECK (state IN ('intended', 'acted', 'done')),
    intent    TEXT         NOT NULL,
    result    TEXT         NOT NULL,
    PRIMARY KEY (migration, stage)
);
