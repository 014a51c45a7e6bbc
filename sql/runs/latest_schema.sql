SELECT version, applied_by
FROM run_schema
ORDER BY version DESC
LIMIT 1;
