INSERT INTO run_schema (version, applied_at_ms, applied_by)
VALUES (:version, :applied_at_ms, :applied_by);
