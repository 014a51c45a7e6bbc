-- Which version of the schema of scans this database has.
CREATE TABLE scan_schema (
    version       INTEGER PRIMARY KEY,
    applied_at_ms BIGINT  NOT NULL,
    applied_by    TEXT    NOT NULL
);
