SELECT group_id AS "group", state
FROM scan_state
WHERE ensemble = :ensemble AND number < :number AND group_id > :after
ORDER BY group_id
LIMIT :limit;
