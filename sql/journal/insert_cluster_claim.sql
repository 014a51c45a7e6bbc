INSERT INTO cluster_run_claim (run, token, holder, at_ms)
VALUES (:run, :token, :holder, :at_ms);
