INSERT INTO cluster_run (run, cluster_id, state, plan_hash, plan, created_at_ms, updated_at_ms)
VALUES (:run, :cluster_id, :state, :plan_hash, :plan, :created_at_ms, :updated_at_ms);
