SELECT group_id, aspect, was, became
FROM scan_change
WHERE ensemble = :ensemble AND number = :number AND (group_id, aspect) > (:after, :aspect)
ORDER BY group_id, aspect
LIMIT :limit;
