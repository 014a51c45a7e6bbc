-- Open runs of the same target; of a cluster, where a group or a link of it is asked for; of the groups and
-- links in it, where a cluster is.
SELECT run, move, target_kind, target, within, state, plan, plan_hash, request, requester, origin,
       created_at_ms, updated_at_ms
FROM run
WHERE state IN ('planned', 'approved', 'running', 'rolling_back')
  AND ((target_kind = :kind AND target = :target AND within = :within)
       OR (:kind = 'cluster' AND target_kind <> 'cluster' AND within = :target AND within <> '')
       OR (:kind <> 'cluster' AND target_kind = 'cluster' AND target = :within AND target <> ''))
ORDER BY created_at_ms;
