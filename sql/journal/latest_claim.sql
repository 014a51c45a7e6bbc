SELECT token, run
FROM claim
WHERE migration = :migration
ORDER BY token DESC
LIMIT 1;
