-- Lists are newest first.
CREATE INDEX run_by_time ON run (created_at_ms);
