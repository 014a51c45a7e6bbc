SELECT version, applied_by
FROM scan_schema
ORDER BY version DESC
LIMIT 1;
