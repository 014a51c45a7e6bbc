INSERT INTO scan (ensemble, number, began_at_ms, ended_at_ms, totals)
SELECT CAST(:ensemble AS VARCHAR(400)), COALESCE(MAX(number), 0) + 1, :began_at_ms, NULL, '{}'
FROM scan
WHERE ensemble = :ensemble;
