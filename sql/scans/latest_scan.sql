SELECT ensemble, number, began_at_ms, ended_at_ms, totals
FROM scan
WHERE ensemble = :ensemble AND ended_at_ms IS NOT NULL AND number < :before
ORDER BY number DESC
LIMIT 1;
