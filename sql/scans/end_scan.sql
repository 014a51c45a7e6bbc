UPDATE scan
SET ended_at_ms = :ended_at_ms, totals = :totals
WHERE ensemble = :ensemble AND number = :number;
