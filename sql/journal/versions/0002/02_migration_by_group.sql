-- The history of one group; the lock (one_open_migration) holds open ones only.
CREATE INDEX migration_by_group ON migration (group_id, created_at_ms, migration);
