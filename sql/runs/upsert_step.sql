INSERT INTO run_step (run, step, state, token, at_ms, intent, result)
VALUES (:run, :step, :state, :token, :at_ms, :intent, :result)
ON CONFLICT (run, step) DO UPDATE
SET state = excluded.state, token = excluded.token, at_ms = excluded.at_ms, intent = excluded.intent,
    result = excluded.result;
