SELECT seq, at_ms, token, kind, step, body
FROM run_event
WHERE run = :run AND (:step = '' OR step = :step)
ORDER BY seq;
