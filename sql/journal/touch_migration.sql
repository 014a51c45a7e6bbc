-- The first statement of every write: it serialises the writers of one migration on its row.
UPDATE migration
SET updated_at_ms = :at_ms
WHERE migration = :migration;
