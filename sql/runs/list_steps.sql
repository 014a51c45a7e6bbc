SELECT step AS key, state, token, at_ms, intent, result
FROM run_step
WHERE run = :run
ORDER BY at_ms;
