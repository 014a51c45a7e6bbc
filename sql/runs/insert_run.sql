INSERT INTO run (run, move, target_kind, target, within, state, plan, plan_hash, request, requester, origin,
                 created_at_ms, updated_at_ms)
VALUES (:run, :move, :kind, :target, :within, :state, :plan, :plan_hash, :request, :requester, :origin,
        :created_at_ms, :updated_at_ms);
