-- The latest claim, and the kind of the last event that bears its token.
SELECT token, holder, at_ms,
       (SELECT kind
        FROM run_event
        WHERE run_event.run = run_claim.run AND run_event.token = run_claim.token
        ORDER BY seq DESC
        LIMIT 1) AS last_word
FROM run_claim
WHERE run = :run
ORDER BY token DESC
LIMIT 1;
