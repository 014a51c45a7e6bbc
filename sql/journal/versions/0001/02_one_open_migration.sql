-- The lock: one open migration a group, whoever asks, for as long as it is open.
CREATE UNIQUE INDEX IF NOT EXISTS one_open_migration ON migration (group_id)
WHERE phase IN ('planned', 'approved', 'running', 'rolling_back');
