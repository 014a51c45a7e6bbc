SELECT group_id, state
FROM scan_state
WHERE ensemble = :ensemble AND group_id IN :groups;
