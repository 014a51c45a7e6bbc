-- Keys with live commits outside their group's partition of the log: the offsets of these, whether somebody still makes them (in the
-- bracket, or later than at home), and the one in the lowest partition.
SELECT f.group_id, f.topic, f.partition, collect_set(f.offset) AS offsets,
       bool_or(h.group_id IS NOT NULL
               AND (f.record_offset >= coalesce(o.opened, 0)
                    OR (f.commit_timestamp >= 0 AND h.commit_timestamp >= 0 AND f.commit_timestamp > h.commit_timestamp))) AS moving,
       min_by(f.offset, f.src_partition) AS first_offset, min(f.src_partition) AS first_partition
FROM {commits} AS f
LEFT JOIN {commits} AS h ON NOT h.is_foreign AND h.group_id = f.group_id AND h.topic = f.topic AND h.partition = f.partition
LEFT JOIN {opened} AS o ON o.partition = f.src_partition
WHERE f.is_foreign AND NOT f.is_tombstone
GROUP BY f.group_id, f.topic, f.partition
