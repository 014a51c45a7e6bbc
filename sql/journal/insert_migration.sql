INSERT INTO migration (migration, group_id, run, phase, plan_hash, plan, request, created_at_ms, updated_at_ms)
VALUES (:migration, :group_id, :run, :phase, :plan_hash, :plan, :request, :created_at_ms, :updated_at_ms);
