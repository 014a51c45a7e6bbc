INSERT INTO migration_event (migration, seq, at_ms, token, kind, stage, body)
SELECT CAST(:migration AS VARCHAR(400)), COALESCE(MAX(seq), 0) + 1, :at_ms, :token, :kind, :stage, :body
FROM migration_event
WHERE migration = :migration;
