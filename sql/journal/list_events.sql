SELECT seq, at_ms, token, kind, stage, body
FROM migration_event
WHERE migration = :migration
ORDER BY seq;
