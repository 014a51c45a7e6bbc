SELECT run, cluster_id, state, plan_hash, plan, created_at_ms, updated_at_ms
FROM cluster_run
WHERE cluster_id = :cluster_id AND state IN ('open', 'going_back');
