SELECT version, applied_by
FROM schema_version
ORDER BY version DESC
LIMIT 1;
