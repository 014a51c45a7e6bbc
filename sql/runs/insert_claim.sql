INSERT INTO run_claim (run, token, holder, at_ms)
VALUES (:run, :token, :holder, :at_ms);
