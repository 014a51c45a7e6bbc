SELECT step, state, token, at_ms, intent, result
FROM cluster_run_step
WHERE run = :run
ORDER BY at_ms, step;
