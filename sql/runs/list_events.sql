SELECT seq, at_ms, token, kind, step, body
FROM run_event
WHERE run = :run AND seq > :after
ORDER BY seq;
