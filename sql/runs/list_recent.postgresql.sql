SELECT run, move, target_kind, target, within, state, plan, plan_hash, request, requester, origin,
       created_at_ms, updated_at_ms
FROM run
WHERE (:move = '' OR move = :move)
  AND (:target = '' OR target = :target)
  AND (:previews = 1 OR state <> 'preview')
  AND (:open_only = 0 OR state IN ('planned', 'approved', 'running', 'rolling_back'))
ORDER BY created_at_ms DESC, run COLLATE "C" DESC
LIMIT :limit;
