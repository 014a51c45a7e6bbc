-- For this transaction only, so that it holds behind a pooler too; in milliseconds.
SELECT set_config('lock_timeout', :lock_ms, true), set_config('statement_timeout', :statement_ms, true);
