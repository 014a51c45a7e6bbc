SELECT run, move, target_kind, target, within, state, plan, plan_hash, request, requester, origin,
       created_at_ms, updated_at_ms
FROM run
WHERE target_kind = :kind AND target = :target AND within = :within
ORDER BY created_at_ms DESC;
