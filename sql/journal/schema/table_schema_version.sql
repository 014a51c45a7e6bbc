-- Which versions of the schema this database has; see groupshift.adapters.sqlalchemy.schema.
CREATE TABLE IF NOT EXISTS schema_version (
    version       INTEGER PRIMARY KEY,
    applied_at_ms BIGINT  NOT NULL,
    applied_by    TEXT    NOT NULL
);
