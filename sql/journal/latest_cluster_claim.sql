SELECT token, holder, at_ms
FROM cluster_run_claim
WHERE run = :run
ORDER BY token DESC
LIMIT 1;
