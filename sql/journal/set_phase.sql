UPDATE migration
SET phase = :phase
WHERE migration = :migration;
