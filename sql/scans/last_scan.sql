SELECT ensemble, number, began_at_ms, ended_at_ms, totals
FROM scan
WHERE ensemble = :ensemble
ORDER BY number DESC
LIMIT 1;
