-- Which version of the schema of runs this database has.
CREATE TABLE run_schema (
    version       INTEGER PRIMARY KEY,
    applied_at_ms BIGINT  NOT NULL,
    applied_by    TEXT    NOT NULL
);
