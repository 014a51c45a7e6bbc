SELECT migration, group_id, run, phase, plan_hash, plan, request, created_at_ms, updated_at_ms
FROM migration
WHERE group_id = :group_id
ORDER BY created_at_ms DESC, migration DESC;
