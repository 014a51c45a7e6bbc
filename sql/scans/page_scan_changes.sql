SELECT group_id AS "group", aspect, was AS "before", became AS "after"
FROM scan_change
WHERE ensemble = :ensemble AND number = :number AND (group_id, aspect) > (:after, :aspect)
ORDER BY group_id, aspect
LIMIT :limit;
