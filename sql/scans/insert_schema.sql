INSERT INTO scan_schema (version, applied_at_ms, applied_by)
VALUES (:version, :applied_at_ms, :applied_by);
