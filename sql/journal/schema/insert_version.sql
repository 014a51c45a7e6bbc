INSERT INTO schema_version (version, applied_at_ms, applied_by)
VALUES (:version, :applied_at_ms, :applied_by);
