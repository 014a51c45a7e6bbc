SELECT token, run, at_ms
FROM claim
WHERE migration = :migration
ORDER BY token DESC
LIMIT 1;
