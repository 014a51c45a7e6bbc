-- The raw records about the keys of {differing} in their groups' own partitions of the log: all since the log's position `opened`
-- was taken, and of those before the last :kept of each key. Types 0 and 1, and keys with bytes left over, are one key (group-coordinator.md §1.7).
SELECT partition, offset, timestamp_ms, key, value
FROM (
  SELECT r.*, r.offset >= coalesce(o.opened, 0) AS since,
         row_number() OVER (PARTITION BY l.group_id, l.topic, l.of_partition, r.offset >= coalesce(o.opened, 0)
                            ORDER BY r.offset DESC) AS place
  FROM {records} AS r
  JOIN (
    SELECT DISTINCT d.group_id, d.topic, d.partition AS of_partition, d.src_partition,
           if(startswith(d.raw_key, X'0000'), concat(X'0001', substring(d.raw_key, 3)), d.raw_key) AS key
    FROM {decoded} AS d
    LEFT SEMI JOIN {differing} AS k ON k.group_id = d.group_id AND k.topic = d.topic AND k.partition = d.partition
    WHERE d.record_type IN (0, 1) AND NOT d.is_foreign) AS l
    ON l.src_partition = r.partition
   AND l.key = if(startswith(r.key, X'0000'), concat(X'0001', substring(r.key, 3)), r.key)
  LEFT JOIN {opened} AS o ON o.partition = r.partition)
WHERE since OR place <= :kept
