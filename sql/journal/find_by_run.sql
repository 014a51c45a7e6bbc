SELECT migration, group_id, run, phase, plan_hash, plan, request, created_at_ms, updated_at_ms
FROM migration
WHERE run = :run;
