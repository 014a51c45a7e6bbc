INSERT INTO migration_step (migration, stage, state, intent, result)
VALUES (:migration, :stage, :state, :intent, :result)
ON CONFLICT (migration, stage) DO UPDATE
SET state = excluded.state, intent = excluded.intent, result = excluded.result;
