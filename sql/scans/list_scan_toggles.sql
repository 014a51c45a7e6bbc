SELECT group_id, wave, to_mode, state, reason, run, at_ms
FROM scan_toggle
WHERE ensemble = :ensemble AND number = :number
ORDER BY wave, group_id;
