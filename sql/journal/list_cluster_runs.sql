SELECT run, cluster_id, state, plan_hash, plan, created_at_ms, updated_at_ms
FROM cluster_run
WHERE run LIKE :like
ORDER BY created_at_ms DESC, run DESC
LIMIT :limit;
