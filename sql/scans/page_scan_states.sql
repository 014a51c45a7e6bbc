SELECT group_id AS "group", state
FROM scan_state
WHERE ensemble = :ensemble AND group_id > :after
ORDER BY group_id
LIMIT :limit;
