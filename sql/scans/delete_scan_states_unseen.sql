DELETE FROM scan_state
WHERE ensemble = :ensemble AND number < :number;
