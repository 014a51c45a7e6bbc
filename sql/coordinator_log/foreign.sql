-- Foreign commits beside what their group's own partition says: `newer` compares the commits' own timestamps, for offsets of
-- different partitions cannot be compared; null where one is missing.
SELECT f.group_id, f.topic, f.partition, f.src_partition, f.expected_partition, f.record_offset, f.is_tombstone, f.offset,
       f.commit_timestamp, h.offset AS home_offset, h.is_tombstone AS home_is_tombstone, h.commit_timestamp AS home_commit_timestamp,
       CASE WHEN f.commit_timestamp >= 0 AND h.commit_timestamp >= 0 THEN f.commit_timestamp > h.commit_timestamp END AS newer
FROM {commits} AS f
LEFT JOIN {commits} AS h
  ON h.group_id = f.group_id AND h.topic = f.topic AND h.partition = f.partition AND NOT h.is_foreign
WHERE f.is_foreign
