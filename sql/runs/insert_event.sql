INSERT INTO run_event (run, seq, at_ms, token, kind, step, body)
SELECT :run, COALESCE(MAX(seq), 0) + 1, :at_ms, :token, :kind, :step, :body
FROM run_event
WHERE run = :run;
