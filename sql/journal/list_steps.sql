SELECT stage, state, intent, result
FROM migration_step
WHERE migration = :migration
ORDER BY stage;
