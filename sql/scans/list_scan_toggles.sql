SELECT group_id AS "group", wave, to_mode AS "to", state, reason, run, at_ms
FROM scan_toggle
WHERE ensemble = :ensemble AND number = :number
ORDER BY wave, group_id;
