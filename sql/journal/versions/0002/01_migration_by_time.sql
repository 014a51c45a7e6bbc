-- The newest migrations first, without reading all of them.
CREATE INDEX migration_by_time ON migration (created_at_ms, migration);
